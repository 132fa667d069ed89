//! The limit on the size of all records: only writes that add to it are refused.

use std::sync::Arc;

use tempfile::TempDir;

use keel::{Clock, Tasks};
use store::{Embedded, Engine, Error, Expect, Memory, Options, Store};

const OPTIONS: Options = Options {
    history_events: 100,
    history_bytes: 1 << 20,
    log_bytes: 8 << 20,
    reserve_bytes: 1 << 20,
    quota_bytes: 1 << 20,
};

async fn put(store: &Engine, key: &str, size: usize) -> Result<(), Error> {
    store.put(key, vec![7; size].into(), Expect::Any, None).await.map(drop)
}

/// Puts new keys of 10,000 bytes until the limit is reached, and returns their number.
async fn fill(store: &Engine) -> usize {
    for index in 0..1000 {
        match put(store, &format!("/{index}"), 10_000).await {
            Ok(()) => {}
            Err(Error::OverQuota { limit }) => {
                assert_eq!(limit, OPTIONS.quota_bytes);
                return index;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the limit was never reached")
}

async fn check_limit(store: Arc<Engine>) {
    assert_eq!(fill(&store).await, (1 << 20) / 10_258);
    put(&store, "/0", 10_000).await.expect("the size is the same");
    put(&store, "/0", 10_300).await.expect("an existing value may grow a little");
    for index in 1..100 {
        if put(&store, &format!("/{index}"), 20_000).await.is_err() {
            assert!(index < 10, "the values grew by more than a 16th of the limit");
            break;
        }
    }
    put(&store, "/0", 10_000).await.expect("the value is smaller than before");
    put(&store, "/new", 0).await.expect_err("a new key is refused");
    for index in 0..20 {
        store.delete(&format!("/{index}"), Expect::Any).await.expect("deletions are not refused");
    }
    put(&store, "/new", 10_000).await.expect("the deletions made room");
}

#[tokio::test]
async fn the_limit_of_a_store_in_memory_refuses_only_writes_that_add_to_it() {
    check_limit(Memory::open(OPTIONS, &Clock::system(), &Tasks::new())).await;
}

#[tokio::test]
async fn the_limit_of_a_store_on_disk_includes_the_records_from_before_a_restart() {
    let directory = TempDir::new().unwrap();
    let open =
        || Embedded::open(directory.path(), OPTIONS, &Clock::system(), &Tasks::new()).unwrap();
    let store = open();
    let count = fill(&store).await;
    store.close().await.unwrap();
    drop(store);
    let store = open();
    put(&store, "/new", 10_000).await.expect_err("the limit was reached before");
    for index in 0..count {
        store.delete(&format!("/{index}"), Expect::Any).await.unwrap();
    }
    check_limit(store).await;
}
