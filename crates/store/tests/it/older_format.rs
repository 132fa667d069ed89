//! A directory of the format without a log can be opened, and has a log from then on.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, TableDefinition};
use tempfile::TempDir;

use crate::watched_events::past_events;
use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Store};

const META: TableDefinition<'_, (), &[u8]> = TableDefinition::new("meta");

fn open(directory: &Path, tasks: &Tasks) -> Result<Arc<Engine>, Error> {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    Embedded::open(directory, Options::default(), &clock, tasks)
}

/// Converts a closed store to the first format.
fn downgrade(directory: &Path) {
    let database = Database::open(directory.join("store.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut table = transaction.open_table(META).unwrap();
        let mut summary = table.get(()).unwrap().unwrap().value()[..32].to_vec();
        summary[4..8].copy_from_slice(&1_u32.to_le_bytes());
        let checksum = crc32fast::hash(&summary[4..]);
        summary[..4].copy_from_slice(&checksum.to_le_bytes());
        table.insert((), &summary[..]).unwrap();
    }
    transaction.commit().unwrap();
}

fn remove_logs(directory: &Path) {
    fs::remove_file(directory.join("log.even")).unwrap();
    fs::remove_file(directory.join("log.odd")).unwrap();
}

#[tokio::test]
async fn a_store_of_the_first_format_keeps_its_records_and_accepts_writes() {
    let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
    let store = open(directory.path(), &tasks).unwrap();
    for key in ["/a", "/b", "/a"] {
        store.put(key, "1".into(), Expect::Any, None).await.unwrap();
    }
    store.close().await.unwrap();
    downgrade(directory.path());
    remove_logs(directory.path());

    for written in 4..7 {
        let store = open(directory.path(), &tasks).unwrap();
        assert_eq!(past_events(&*store, 0).await.unwrap().len(), written - 1);
        let record = store.put("/c", "1".into(), Expect::Any, None).await.unwrap();
        assert_eq!(record.modified, written as u64);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_log_is_refused() {
    let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
    open(directory.path(), &tasks).unwrap().close().await.unwrap();
    let log = directory.path().join("log.odd");
    fs::remove_file(&log).unwrap();
    let Err(Error::Damaged { path, .. }) = open(directory.path(), &tasks) else {
        panic!("it was opened without its log");
    };
    assert_eq!(path, log);
}

#[tokio::test]
async fn a_database_of_the_first_format_beside_a_log_with_writes_is_refused() {
    let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
    let store = open(directory.path(), &tasks).unwrap();
    store.put("/a", "1".into(), Expect::Any, None).await.unwrap();
    store.close().await.unwrap();
    downgrade(directory.path());
    let log = directory.path().join("log.odd");
    let before = fs::read(&log).unwrap();
    let Err(Error::Damaged { detail, .. }) = open(directory.path(), &tasks) else {
        panic!("the log of a newer database was discarded");
    };
    assert!(detail.contains("log.odd holds writes"), "{detail}");
    assert_eq!(fs::read(&log).unwrap(), before);
}
