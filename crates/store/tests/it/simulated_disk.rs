//! [`SimulatedDisk`]: distinguishes synced from unsynced writes, and loses some of the latter.
//!
//! Between two fsyncs a real disk may write any subset of sectors in any order. A simulated crash
//! does the same: each sector of each unsynced write is kept or lost, depending on the seed.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

use keel::Entropy;
use store::embedded::{Disk, StoreFile};

const SECTOR: usize = 512;
const BLOCK: usize = 4096;

const FILES: [StoreFile; 3] = [StoreFile::Database, StoreFile::EvenLog, StoreFile::OddLog];

/// A disk in memory; clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
struct DiskState {
    database: FileContent,
    even_log: FileContent,
    odd_log: FileContent,
    /// The length of the reserve, if the file exists; its content is not kept.
    reserve: Option<usize>,
    /// The number of attempts to enlarge the reserve.
    reserve_tries: usize,
    faults: Faults,
}

/// One file.
#[derive(Debug, Default)]
struct FileContent {
    /// The synced content, which survives a crash.
    synced: Vec<u8>,
    /// The content that readers see.
    visible: Vec<u8>,
    /// The changes since the last fsync.
    unsynced: Vec<Change>,
    /// The allocated blocks, which are those that were written.
    blocks: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
enum Change {
    Length(usize),
    Write(usize, Vec<u8>),
}

/// The failures of the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The power fails after this number of changes and fsyncs.
    pub(crate) operations_until_crash: Option<u64>,
    /// The next fsync fails.
    pub(crate) fail_sync: bool,
    /// The next fsync of the database fails.
    pub(crate) fail_database_sync: bool,
    /// The size of the disk; unlimited if `None`.
    pub(crate) capacity: Option<usize>,
    /// Every write to the reserve fails.
    pub(crate) fail_reserve: bool,
}

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Whether the power has failed.
    pub(crate) fn is_powered_off(&self) -> bool {
        self.state().faults.operations_until_crash == Some(0)
    }

    /// The used space.
    pub(crate) fn size(&self) -> usize {
        self.state().size()
    }

    /// The length of the reserve, if the file exists.
    pub(crate) fn reserve(&self) -> Option<usize> {
        self.state().reserve
    }

    /// The number of attempts to enlarge the reserve.
    pub(crate) fn reserve_tries(&self) -> usize {
        self.state().reserve_tries
    }

    /// Removes the reserve, as an administrator might.
    pub(crate) fn remove_reserve(&self) {
        self.state().reserve = None;
    }

    /// The content of a file.
    pub(crate) fn content(&self, file: StoreFile) -> Vec<u8> {
        self.state().content_of(file).visible.clone()
    }

    /// Replaces the content of a file.
    pub(crate) fn set_content(&self, file: StoreFile, content: &[u8]) {
        *self.state().content_of(file) = FileContent {
            synced: content.to_vec(),
            visible: content.to_vec(),
            unsynced: Vec::new(),
            blocks: blocks(0, content.len()).collect(),
        };
    }

    /// Simulates a power failure: unsynced sectors are kept at random.
    pub(crate) fn crash(&self, entropy: &Entropy) {
        let mut state = self.state();
        for file in FILES {
            state.content_of(file).crash(entropy);
        }
        state.faults = Faults::default();
    }

    pub(crate) fn to_disk(&self) -> Box<dyn Disk> {
        Box::new(self.clone())
    }
}

impl DiskState {
    fn content_of(&mut self, file: StoreFile) -> &mut FileContent {
        match file {
            StoreFile::Database => &mut self.database,
            StoreFile::EvenLog => &mut self.even_log,
            StoreFile::OddLog => &mut self.odd_log,
        }
    }

    fn size(&self) -> usize {
        let content = [&self.database, &self.even_log, &self.odd_log].map(|it| it.blocks.len());
        content.iter().sum::<usize>() * BLOCK + self.reserve.unwrap_or(0)
    }

    fn has_room_for(&self, growth: usize) -> bool {
        self.faults.capacity.is_none_or(|capacity| self.size() + growth <= capacity)
    }

    fn count_down(&mut self) -> io::Result<()> {
        match &mut self.faults.operations_until_crash {
            Some(0) => Err(io::Error::other("the power has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl FileContent {
    fn crash(&mut self, entropy: &Entropy) {
        let mut changes = std::mem::take(&mut self.unsynced);
        // Some crashes lose everything, some nothing, most a part.
        let kept_quarters = entropy.below(5);
        while !changes.is_empty() {
            let index = entropy.below(u64::try_from(changes.len()).unwrap());
            let change = changes.swap_remove(usize::try_from(index).unwrap());
            self.survive(change, || entropy.below(4) < kept_quarters);
        }
        self.visible.clone_from(&self.synced);
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

/// The blocks of `length` bytes from `start` on.
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
    file: StoreFile,
}

impl StorageBackend for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        let length = self.disk.state().content_of(self.file).visible.len();
        Ok(u64::try_from(length).unwrap())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let start = position(offset);
        let found = state.content_of(self.file).visible.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.count_down()?;
        let length = position(len);
        let content = state.content_of(self.file);
        content.visible.resize(length, 0);
        content.blocks.retain(|block| block * BLOCK < length);
        content.unsynced.push(Change::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.count_down()?;
        let faults = &mut state.faults;
        let fails_here =
            self.file == StoreFile::Database && std::mem::take(&mut faults.fail_database_sync);
        if fails_here || std::mem::take(&mut faults.fail_sync) {
            return Err(io::Error::other("the disk lost a page"));
        }
        let FileContent { synced, visible, unsynced, .. } = state.content_of(self.file);
        synced.clone_from(visible);
        unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.count_down()?;
        let start = position(offset);
        let content = state.content_of(self.file);
        let new = blocks(start, data.len()).filter(|block| !content.blocks.contains(block));
        let growth = new.count() * BLOCK;
        if growth > 0 && !state.has_room_for(growth) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let content = state.content_of(self.file);
        content.blocks.extend(blocks(start, data.len()));
        put(&mut content.visible, start, data);
        content.unsynced.push(Change::Write(start, data.to_vec()));
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, file: StoreFile) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(SimulatedFile { disk: self.clone(), file }))
    }

    fn create_logs(&self) -> io::Result<()> {
        Ok(())
    }

    /// A simulated crash does not change the reserve.
    fn resize_reserve(&self, size: u64) -> io::Result<()> {
        let mut state = self.state();
        let size = position(size);
        let growth = match state.reserve {
            None if size == 0 => return Ok(()),
            // The new entry in the directory takes a block.
            None => BLOCK + size,
            Some(length) => size.saturating_sub(length),
        };
        if growth > 0 && state.faults.fail_reserve {
            return Err(io::Error::other("a sector cannot be written"));
        }
        state.reserve_tries += usize::from(growth > 0);
        if growth > 0 && !state.has_room_for(growth) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.reserve = Some(size);
        Ok(())
    }

    fn max_reserve(&self) -> io::Result<u64> {
        let state = self.state();
        let Some(capacity) = state.faults.capacity else { return Ok(u64::MAX) };
        let free = capacity.saturating_sub(state.size());
        Ok(u64::try_from(free + state.reserve.unwrap_or(0)).unwrap())
    }

    fn path(&self, file: StoreFile) -> PathBuf {
        PathBuf::from(format!("simulated {file:?}"))
    }
}
