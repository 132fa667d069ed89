//! A damaged file is refused, or opened without a loss. Opening it never panics.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::watched_events::past_events;
use keel::{Clock, Entropy, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Event, Expect, Options, Record, Store};

/// The complete content of a store.
#[derive(Debug, PartialEq)]
struct Content {
    records: Vec<Arc<Record>>,
    events: Vec<Event>,
    revision: u64,
}

async fn content(store: &Engine) -> Content {
    let page = store.range("", None, usize::MAX, None).await.unwrap();
    let events = past_events(store, 0).await.unwrap();
    Content { records: page.records, events, revision: page.revision }
}

/// A closed store with records and deletions.
struct Sample {
    directory: TempDir,
    tasks: Tasks,
    bytes: Vec<u8>,
    content: Content,
}

impl Sample {
    async fn new() -> Self {
        let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
        let store = open(directory.path(), &tasks).unwrap();
        let entropy = Entropy::seeded(1);
        for n in 0..30 {
            let mut value = vec![0; usize::try_from(entropy.below(5000)).unwrap()];
            entropy.fill(&mut value);
            store.put(&format!("/{}", n % 20), value.into(), Expect::Any, None).await.unwrap();
            if n % 9 == 0 {
                store.delete(&format!("/{}", n % 20), Expect::Any).await.unwrap();
            }
        }
        let content = content(&store).await;
        store.close().await.unwrap();
        let bytes = fs::read(file(directory.path())).unwrap();
        Self { directory, tasks, bytes, content }
    }

    /// Opens the store on other bytes, and returns whether they are accepted.
    async fn accepts(&self, bytes: &[u8], what: &str) -> bool {
        fs::write(file(self.directory.path()), bytes).unwrap();
        match open(self.directory.path(), &self.tasks) {
            Ok(store) => {
                assert_eq!(content(&store).await, self.content, "{what} lost something");
                store.close().await.unwrap();
                true
            }
            Err(Error::Damaged { path, detail }) => {
                assert_eq!(path, file(self.directory.path()));
                assert!(detail.contains("restore the directory from a backup"), "{what}: {detail}");
                false
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join("store.redb")
}

fn open(directory: &Path, tasks: &Tasks) -> Result<Arc<Engine>, Error> {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    Embedded::open(directory, Options::default(), &clock, tasks)
}

#[tokio::test]
async fn the_undamaged_file_opens() {
    let sample = Sample::new().await;
    assert!(sample.accepts(&sample.bytes, "nothing").await);
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    let sample = Sample::new().await;
    let length = sample.bytes.len();
    let cuts = (0..40).map(|part| length * part / 40).chain([1, 9, 319, 4095, length - 1]);
    for cut in cuts {
        assert!(!sample.accepts(&sample.bytes[..cut], &format!("a cut at {cut}")).await);
    }
}

/// Flips bits of a file, one at a time: those of the header's bytes, then some all over it.
async fn flips_are_detected_or_harmless(sample: &Sample, whole: &[u8]) {
    let entropy = Entropy::seeded(2);
    let length = u64::try_from(whole.len()).unwrap();
    let header = 0..340;
    let anywhere = (0..120).map(|_| usize::try_from(entropy.below(length)).unwrap());
    let mut detected = 0;
    for at in header.chain(anywhere) {
        let bit = entropy.below(8);
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1 << bit;
        detected += u32::from(!sample.accepts(&bytes, &format!("bit {bit} of byte {at}")).await);
    }
    assert!(detected > 50, "only {detected} flips were detected");
}

#[tokio::test]
async fn a_flipped_bit_is_detected_or_harmless() {
    let sample = Sample::new().await;
    flips_are_detected_or_harmless(&sample, &sample.bytes).await;
}

#[tokio::test]
async fn a_flipped_bit_is_detected_or_harmless_after_a_crash() {
    let sample = Sample::new().await;
    let mut bytes = sample.bytes.clone();
    // redb's flag of a file that was not closed.
    bytes[9] |= 2;
    assert!(sample.accepts(&bytes, "a crash").await);
    flips_are_detected_or_harmless(&sample, &bytes).await;
}

#[tokio::test]
async fn a_lost_page_is_detected_or_harmless() {
    let sample = Sample::new().await;
    for page in 0..sample.bytes.len() / 4096 {
        let mut bytes = sample.bytes.clone();
        bytes[page * 4096..][..4096].fill(0);
        sample.accepts(&bytes, &format!("a page of zeros for page {page}")).await;
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_refused() {
    let sample = Sample::new().await;
    assert!(!sample.accepts(b"", "an empty file").await);
    assert!(!sample.accepts(b"apiVersion: v1\n", "a manifest").await);
    assert!(!sample.accepts(&vec![0; 1 << 16], "zeros").await);
}

#[tokio::test]
async fn a_newer_format_is_refused_by_its_number() {
    use redb::{Database, TableDefinition};
    let sample = Sample::new().await;
    let meta: TableDefinition<'_, (), &[u8]> = TableDefinition::new("meta");
    let database = Database::open(file(sample.directory.path())).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut summary = [0; 32];
    summary[4] = 3;
    let checksum = crc32fast::hash(&summary[4..]);
    summary[..4].copy_from_slice(&checksum.to_le_bytes());
    transaction.open_table(meta).unwrap().insert((), &summary[..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let Err(refused) = open(sample.directory.path(), &sample.tasks) else { panic!("accepted") };
    let message = refused.to_string();
    assert!(message.contains("it has format 3, and this version reads up to 2"), "{message}");
    assert!(message.contains("use the version that wrote it"), "{message}");
}
