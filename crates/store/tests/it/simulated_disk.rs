//! [`SimulatedDisk`]: remembers what was synced and what was not, and loses some of the latter.
//!
//! Between two fsyncs a real disk may write any subset of sectors in any order. A crash here does
//! the same: each sector of each unsynced write reaches the platter or does not, by the seed.

use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use keel::Entropy;
use redb::StorageBackend;
use store::embedded::{Disk, Part};

const SECTOR: usize = 512;
const BLOCK: usize = 4096;

const PARTS: [Part; 3] = [Part::Base, Part::EvenLog, Part::OddLog];

/// A disk in memory; clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<Hardware>>);

#[derive(Debug, Default)]
struct Hardware {
    base: Platter,
    even_log: Platter,
    odd_log: Platter,
    /// The length of the reserve, if the file exists; its content is not kept.
    reserve: Option<usize>,
    /// How often the reserve was to grow.
    reserve_tries: usize,
    faults: Faults,
}

/// One file.
#[derive(Debug, Default)]
struct Platter {
    /// What a crash cannot take away.
    synced: Vec<u8>,
    /// What the running system sees.
    seen: Vec<u8>,
    /// What happened since the last fsync.
    unsynced: Vec<Change>,
    /// Which blocks take space: those that were written to. A file that is merely long takes none.
    blocks: BTreeSet<usize>,
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
    /// The next fsync of the database fails.
    pub(crate) fail_base_sync: bool,
    /// How many bytes all files together may have.
    pub(crate) capacity: Option<usize>,
    /// Every write to the reserve fails.
    pub(crate) fail_reserve: bool,
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    fn hardware(&self) -> MutexGuard<'_, Hardware> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.hardware().faults = faults;
    }

    /// Whether the power is gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.hardware().faults.operations_until_crash == Some(0)
    }

    /// How many bytes the disk holds.
    pub(crate) fn size(&self) -> usize {
        self.hardware().size()
    }

    /// The length of the reserve, if the file exists.
    pub(crate) fn reserve(&self) -> Option<usize> {
        self.hardware().reserve
    }

    /// How often the reserve was to grow.
    pub(crate) fn reserve_tries(&self) -> usize {
        self.hardware().reserve_tries
    }

    /// Removes the reserve, as an administrator does who needs the space.
    pub(crate) fn remove_reserve(&self) {
        self.hardware().reserve = None;
    }

    /// The content of a file, which is taken for synced.
    pub(crate) fn content(&self, part: Part) -> Vec<u8> {
        self.hardware().platter(part).seen.clone()
    }

    /// Changes the content of a file behind the store's back.
    pub(crate) fn set_content(&self, part: Part, content: &[u8]) {
        *self.hardware().platter(part) = Platter {
            synced: content.to_vec(),
            seen: content.to_vec(),
            unsynced: Vec::new(),
            blocks: blocks(0, content.len()).collect(),
        };
    }

    /// Takes the power away and gives it back: unsynced sectors survive by chance.
    pub(crate) fn crash(&self, entropy: &Entropy) {
        let mut hardware = self.hardware();
        for part in PARTS {
            hardware.platter(part).crash(entropy);
        }
        hardware.faults = Faults::default();
    }

    pub(crate) fn plug(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }
}

impl Hardware {
    fn platter(&mut self, part: Part) -> &mut Platter {
        match part {
            Part::Base => &mut self.base,
            Part::EvenLog => &mut self.even_log,
            Part::OddLog => &mut self.odd_log,
        }
    }

    fn size(&self) -> usize {
        let content = [&self.base, &self.even_log, &self.odd_log].map(|it| it.blocks.len());
        content.iter().sum::<usize>() * BLOCK + self.reserve.unwrap_or(0)
    }

    fn has_room_for(&self, growth: usize) -> bool {
        self.faults.capacity.is_none_or(|capacity| self.size() + growth <= capacity)
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

impl Platter {
    fn crash(&mut self, entropy: &Entropy) {
        let mut changes = std::mem::take(&mut self.unsynced);
        // Some crashes lose everything, some nothing, most something in between.
        let luck = entropy.below(5);
        while !changes.is_empty() {
            let index = entropy.below(u64::try_from(changes.len()).unwrap());
            let change = changes.swap_remove(usize::try_from(index).unwrap());
            self.survive(change, || entropy.below(4) < luck);
        }
        self.seen.clone_from(&self.synced);
    }

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
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if bytes.len() < offset + data.len() {
        bytes.resize(offset + data.len(), 0);
    }
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

/// The blocks that so many bytes from `start` on lie in.
fn blocks(start: usize, length: usize) -> Range<usize> {
    start / BLOCK..(start + length).div_ceil(BLOCK)
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// A file on the disk.
#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    part: Part,
}

impl StorageBackend for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let length = self.disk.hardware().platter(self.part).seen.len();
        Ok(u64::try_from(length).unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut hardware = self.disk.hardware();
        let start = position(offset);
        let found = hardware.platter(self.part).seen.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut hardware = self.disk.hardware();
        hardware.count_down()?;
        let length = position(len);
        let platter = hardware.platter(self.part);
        platter.seen.resize(length, 0);
        platter.blocks.retain(|block| block * BLOCK < length);
        platter.unsynced.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut hardware = self.disk.hardware();
        hardware.count_down()?;
        let faults = &mut hardware.faults;
        let fails_here = self.part == Part::Base && std::mem::take(&mut faults.fail_base_sync);
        if fails_here || std::mem::take(&mut faults.fail_sync) {
            return Err(io::Error::other("the disk lost a page"));
        }
        let Platter { synced, seen, unsynced, .. } = hardware.platter(self.part);
        synced.clone_from(seen);
        unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut hardware = self.disk.hardware();
        hardware.count_down()?;
        let start = position(offset);
        let platter = hardware.platter(self.part);
        let new = blocks(start, data.len()).filter(|block| !platter.blocks.contains(block));
        let growth = new.count() * BLOCK;
        if growth > 0 && !hardware.has_room_for(growth) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let platter = hardware.platter(self.part);
        platter.blocks.extend(blocks(start, data.len()));
        put(&mut platter.seen, start, data);
        platter.unsynced.push(Change::Write(start, data.to_vec()));
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, part: Part) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(SimulatedFile { disk: self.clone(), part }))
    }

    fn make_logs(&self) -> io::Result<()> {
        Ok(())
    }

    /// The reserve survives everything: nothing depends on it.
    fn resize_reserve(&self, size: u64) -> io::Result<()> {
        let mut hardware = self.hardware();
        let size = position(size);
        let growth = match hardware.reserve {
            None if size == 0 => return Ok(()),
            // The new entry in the directory takes a block.
            None => BLOCK + size,
            Some(length) => size.saturating_sub(length),
        };
        if growth > 0 && hardware.faults.fail_reserve {
            return Err(io::Error::other("a sector cannot be written"));
        }
        hardware.reserve_tries += usize::from(growth > 0);
        if growth > 0 && !hardware.has_room_for(growth) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        hardware.reserve = Some(size);
        Ok(())
    }

    fn reserve_room(&self) -> io::Result<u64> {
        let hardware = self.hardware();
        let Some(capacity) = hardware.faults.capacity else { return Ok(u64::MAX) };
        let free = capacity.saturating_sub(hardware.size());
        Ok(u64::try_from(free + hardware.reserve.unwrap_or(0)).unwrap())
    }

    fn path(&self, part: Part) -> PathBuf {
        PathBuf::from(format!("simulated {part:?}"))
    }
}
