//! A log without its end is read up to the last complete batch; other damage is refused.

use std::ops::Range;
use std::sync::Arc;

use crate::simulated_disk::{Faults, SimulatedDisk};
use keel::{Clock, Entropy, Tasks, Timestamp};
use store::embedded::{Disk, StoreFile};
use store::{Embedded, Engine, Error, Expect, Options, Store};

/// The first segment has number 1.
const LOG: StoreFile = StoreFile::OddLog;

/// A store that was not closed, with all its batches in the log, one write in each.
struct Sample {
    disk: SimulatedDisk,
    tasks: Tasks,
    log: Vec<u8>,
    batches: Vec<Range<usize>>,
}

/// The outcome of opening a modified sample.
#[derive(Debug, PartialEq)]
enum OpenOutcome {
    /// It was opened, with this number of writes.
    Opened(u64),
    /// It was refused.
    Damaged,
}

use OpenOutcome::{Damaged, Opened};

fn open(disk: &SimulatedDisk, options: Options, tasks: &Tasks) -> Result<Arc<Engine>, Error> {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    Embedded::open_on(disk.to_disk(), options, &clock, tasks)
}

/// Writes `sizes` one by one, and powers the disk off without closing the store.
async fn write_and_crash(disk: &SimulatedDisk, options: Options, tasks: &Tasks, sizes: &[usize]) {
    let store = open(disk, options, tasks).unwrap();
    for size in sizes {
        let key = format!("/{}", store.revision().await.unwrap() + 1);
        store.put(&key, vec![7; *size].into(), Expect::Absent, None).await.unwrap();
    }
    disk.set_faults(Faults { operations_until_crash: Some(0), ..Faults::default() });
    let _ = store.close().await;
    disk.crash(&Entropy::seeded(1));
}

impl Sample {
    async fn new() -> Self {
        let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
        write_and_crash(&disk, Options::default(), &tasks, &[10, 0, 3000, 700, 1, 40]).await;
        let log = disk.content(LOG);
        let mut batches = Vec::new();
        let mut start = 0;
        while log[start..start + 24] != [0; 24] {
            let length = u64::from_le_bytes(*log[start + 16..].first_chunk().unwrap());
            let end = start + usize::try_from(length).unwrap();
            batches.push(start..end);
            start = end;
        }
        assert_eq!(batches.len(), 6);
        Self { disk, tasks, log, batches }
    }

    /// Opens the store with another log.
    async fn open_on(&self, log: &[u8]) -> OpenOutcome {
        let database = self.disk.content(StoreFile::Database);
        self.disk.set_content(LOG, log);
        let outcome = match open(&self.disk, Options::default(), &self.tasks) {
            Ok(store) => {
                let page = store.range("", None, usize::MAX, None).await.unwrap();
                assert_eq!(page.records.len() as u64, page.revision);
                store.close().await.unwrap();
                Opened(page.revision)
            }
            Err(Error::Damaged { path, detail }) => {
                assert_eq!(path, self.disk.path(LOG));
                assert!(detail.contains("restore the directory from a backup"), "{detail}");
                Damaged
            }
            Err(error) => panic!("{error:?}"),
        };
        self.disk.set_content(StoreFile::Database, &database);
        outcome
    }
}

#[tokio::test]
async fn every_prefix_of_the_log_contains_its_complete_batches() {
    let sample = Sample::new().await;
    assert_eq!(sample.open_on(&sample.log).await, Opened(6));
    let end = sample.batches[5].end;
    for cut in (0..end).step_by(8) {
        let whole = sample.batches.iter().filter(|batch| batch.end <= cut).count() as u64;
        assert_eq!(sample.open_on(&sample.log[..cut]).await, Opened(whole), "cut at {cut}");
        let mut zeroed = sample.log.clone();
        zeroed[cut..].fill(0);
        assert_eq!(sample.open_on(&zeroed).await, Opened(whole), "zeros from {cut}");
    }
}

#[tokio::test]
async fn a_flipped_bit_is_refused_unless_it_is_in_the_last_batch() {
    let sample = Sample::new().await;
    let entropy = Entropy::seeded(3);
    for (index, batch) in sample.batches.iter().enumerate() {
        let length = u64::try_from(batch.len()).unwrap();
        let header = 0..40;
        let anywhere = (0..20).map(|_| entropy.below(length));
        for at in header.chain(anywhere) {
            let mut log = sample.log.clone();
            log[batch.start + usize::try_from(at).unwrap()] ^= 1 << entropy.below(8);
            let expected = if index == 5 { Opened(5) } else { Damaged };
            assert_eq!(sample.open_on(&log).await, expected, "byte {at} of batch {index}");
        }
    }
}

#[tokio::test]
async fn a_lost_sector_is_refused_unless_it_is_in_the_last_batch() {
    let sample = Sample::new().await;
    for sector in 0..sample.batches[5].start / 512 {
        let mut log = sample.log.clone();
        log[sector * 512..][..512].fill(0);
        assert_eq!(sample.open_on(&log).await, Damaged, "sector {sector}");
    }
    let mut log = sample.log.clone();
    log[sample.batches[5].end..].fill(0xff);
    assert_eq!(sample.open_on(&log).await, Opened(6));
}

#[tokio::test]
async fn a_batch_in_the_wrong_place_is_refused() {
    let sample = Sample::new().await;
    let (first, second) = (sample.batches[0].clone(), sample.batches[1].clone());
    let mut swapped = sample.log[second.clone()].to_vec();
    swapped.extend_from_slice(&sample.log[first]);
    swapped.extend_from_slice(&sample.log[second.end..]);
    assert_eq!(sample.open_on(&swapped).await, Damaged);
}

#[tokio::test]
async fn the_loss_of_the_end_of_an_earlier_segment_is_refused() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let options = Options { log_bytes: 4000, ..Options::default() };
    open(&disk, options, &tasks).unwrap().close().await.unwrap();
    let database = disk.content(StoreFile::Database);
    write_and_crash(&disk, options, &tasks, &[3000, 3000, 3000]).await;
    // Undo the checkpoint of the first segment.
    disk.set_content(StoreFile::Database, &database);
    let store = open(&disk, options, &tasks).unwrap();
    assert_eq!(store.revision().await.unwrap(), 3);
    store.close().await.unwrap();

    disk.set_content(StoreFile::Database, &database);
    let mut log = disk.content(LOG);
    log[3100..].fill(0);
    disk.set_content(LOG, &log);
    let Err(Error::Damaged { detail, .. }) = open(&disk, options, &tasks) else {
        panic!("a batch was lost");
    };
    assert!(detail.contains("segment 1 had 2 batches, but 1 are left"), "{detail}");
}

#[tokio::test]
async fn a_database_that_is_older_than_the_log_is_refused() {
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let options = Options { log_bytes: 4000, ..Options::default() };
    open(&disk, options, &tasks).unwrap().close().await.unwrap();
    let backup = disk.content(StoreFile::Database);
    write_and_crash(&disk, options, &tasks, &[3000; 12]).await;
    disk.set_content(StoreFile::Database, &backup);
    let refused = open(&disk, options, &tasks);
    assert!(matches!(refused, Err(Error::Damaged { .. })), "it was opened");
}
