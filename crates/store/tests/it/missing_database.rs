//! A directory without a database is refused if its log contains writes. Otherwise it is an
//! interrupted first start.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Engine, Error, Expect, Options, Store};

/// The files that a first start creates, in this order, before the database is renamed.
const FILES: [&str; 3] = ["log.even", "log.odd", "store.redb.new"];

fn open(directory: &Path, tasks: &Tasks) -> Result<Arc<Engine>, Error> {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    Embedded::open(directory, Options::default(), &clock, tasks)
}

#[tokio::test]
async fn a_log_with_writes_is_not_discarded_when_the_database_is_missing() {
    let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
    let database = directory.path().join("store.redb");
    let store = open(directory.path(), &tasks).unwrap();
    store.put("/a", "1".into(), Expect::Any, None).await.unwrap();
    store.close().await.unwrap();
    let aside = directory.path().join("aside");
    fs::rename(&database, &aside).unwrap();

    for _ in 0..2 {
        let Err(Error::Damaged { path, detail }) = open(directory.path(), &tasks) else {
            panic!("a store without its database was opened");
        };
        assert_eq!(path, database);
        assert!(detail.contains("log.odd holds writes"), "{detail}");
        assert!(detail.contains("restore the directory from a backup"), "{detail}");
    }

    fs::rename(&aside, &database).unwrap();
    let store = open(directory.path(), &tasks).unwrap();
    assert_eq!(store.revision().await.unwrap(), 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_interrupted_first_start_is_repeated() {
    for created in 0..=FILES.len() {
        let (directory, tasks) = (TempDir::new().unwrap(), Tasks::new());
        fs::write(directory.path().join("LOCK"), "process 1\n").unwrap();
        for (index, file) in FILES[..created].iter().enumerate() {
            let content: &[u8] = if index == 2 { b"half a database" } else { b"" };
            fs::write(directory.path().join(file), content).unwrap();
        }
        let store = open(directory.path(), &tasks).unwrap();
        store.put("/a", "1".into(), Expect::Absent, None).await.unwrap();
        store.close().await.unwrap();
        assert!(!directory.path().join("store.redb.new").exists());
    }
}
