//! [`SimulatedDisk`]: remembers what was synced and what was not, and loses some of the latter.
//!
//! Between two fsyncs a real disk may write any subset of sectors in any order. A crash here does
//! the same: each sector of each unsynced write reaches the platter or does not, by the seed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keel::Entropy;
use redb::StorageBackend;
use store::embedded::Disk;

const SECTOR: usize = 512;

/// A disk in memory; clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    /// What a crash cannot take away.
    synced: Vec<u8>,
    /// What the running system sees.
    seen: Vec<u8>,
    /// What happened since the last fsync.
    unsynced: Vec<Change>,
    faults: Faults,
}

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

/// When the disk fails, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The power goes after this many changes and fsyncs.
    pub(crate) operations_until_crash: Option<u64>,
    /// The next fsync fails.
    pub(crate) fail_sync: bool,
    /// No byte after this one can be written.
    pub(crate) capacity: Option<usize>,
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.platter().faults = faults;
    }

    /// How many bytes the disk holds.
    pub(crate) fn size(&self) -> usize {
        self.platter().seen.len()
    }

    /// Takes the power away and gives it back: unsynced sectors survive by chance.
    pub(crate) fn crash(&self, entropy: &Entropy) {
        let mut platter = self.platter();
        let mut changes = std::mem::take(&mut platter.unsynced);
        // Some crashes lose everything, some nothing, most something in between.
        let luck = entropy.below(5);
        while !changes.is_empty() {
            let index = entropy.below(u64::try_from(changes.len()).unwrap());
            let change = changes.swap_remove(usize::try_from(index).unwrap());
            platter.survive(change, || entropy.below(4) < luck);
        }
        let Platter { synced, seen, .. } = &mut *platter;
        seen.clone_from(synced);
        platter.faults = Faults::default();
    }
}

impl Platter {
    fn survive(&mut self, change: Change, mut survives: impl FnMut() -> bool) {
        match change {
            Change::Length(length) if survives() => self.synced.resize(length, 0),
            Change::Length(_) => {}
            Change::Write(offset, data) => {
                let mut at = offset;
                let mut rest = &data[..];
                while !rest.is_empty() {
                    let in_sector = (SECTOR - at % SECTOR).min(rest.len());
                    let (sector, after) = rest.split_at(in_sector);
                    if survives() {
                        put(&mut self.synced, at, sector);
                    }
                    (at, rest) = (at + in_sector, after);
                }
            }
        }
    }

    fn count_down(&mut self) -> io::Result<()> {
        match &mut self.faults.operations_until_crash {
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(u64::try_from(self.size()).unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.platter();
        let start = position(offset);
        let found = platter.seen.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut platter = self.platter();
        platter.count_down()?;
        let length = position(len);
        platter.seen.resize(length, 0);
        platter.unsynced.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.platter();
        platter.count_down()?;
        if std::mem::take(&mut platter.faults.fail_sync) {
            return Err(io::Error::other("the disk lost a page"));
        }
        let Platter { synced, seen, .. } = &mut *platter;
        synced.clone_from(seen);
        platter.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.platter();
        platter.count_down()?;
        let start = position(offset);
        if platter.faults.capacity.is_some_and(|capacity| start + data.len() > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        put(&mut platter.seen, start, data);
        platter.unsynced.push(Change::Write(start, data.to_vec()));
        Ok(())
    }
}

/// The disk as the store is given it.
pub(crate) struct Plugged {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl SimulatedDisk {
    pub(crate) fn plug(&self) -> Box<dyn Disk> {
        Box::new(Plugged { disk: self.clone(), path: PathBuf::from("simulated") })
    }
}

impl Disk for Plugged {
    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(self.disk.clone()))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
