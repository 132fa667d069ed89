//! Tests of the division of requests into batches.

use std::path::PathBuf;
use std::sync::Mutex;

use super::*;
use crate::history::{Bounds, History};
use keel::Timestamp;

/// Records the number of events of each batch.
#[derive(Clone, Default)]
struct BatchSizes(Arc<Mutex<Vec<usize>>>);

impl Journal for BatchSizes {
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        self.0.lock().unwrap().push(batch.events.len());
        Ok(())
    }

    fn reserve_location(&self) -> (PathBuf, u64) {
        (PathBuf::new(), 0)
    }

    fn release_reserve(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn restore_reserve(&mut self) -> Result<bool, Error> {
        Ok(true)
    }

    fn is_idle(&mut self) -> Result<bool, Error> {
        Ok(true)
    }

    fn maintain(&mut self, _: Shrink) -> Result<(), Error> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// A writer whose history keeps 4000 bytes of replaced values, and the sizes of its batches.
fn writer() -> (Writer, BatchSizes) {
    let bounds = Bounds { events: 1000, bytes: 4000 };
    let state = Arc::new(StoreState::new(Records::new(), 0, History::new(0, bounds)));
    let sizes = BatchSizes::default();
    let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
    let journal: Box<dyn Journal> = Box::new(sizes.clone());
    (Writer::new(state, Some(journal), clock, 0, usize::MAX), sizes)
}

/// Ten puts of 500 bytes each.
fn puts(ttl: Option<Duration>) -> Vec<Request> {
    let put = |n: usize| Request::Put {
        key: format!("/{n}").into(),
        value: vec![b'x'; 500].into(),
        expect: Expect::Any,
        ttl,
    };
    (0..10).map(put).collect()
}

#[test]
fn a_batch_ends_when_it_replaces_a_quarter_of_the_history() {
    let (mut writer, sizes) = writer();
    for _ in 0..2 {
        assert!(writer.commit(&puts(None)).iter().all(Result::is_ok));
    }
    assert_eq!(*sizes.0.lock().unwrap(), [10, 3, 3, 3, 1]);
}

#[test]
fn a_batch_of_expired_records_ends_when_it_replaces_a_quarter_of_the_history() {
    let (mut writer, sizes) = writer();
    writer.commit(&puts(Some(Duration::ZERO)));
    let mut deleted = Vec::new();
    while let Ok(count @ 1..) = writer.delete_expired(100) {
        deleted.push(count);
    }
    assert_eq!(deleted, [3, 3, 3, 1]);
    assert_eq!(*sizes.0.lock().unwrap(), [10, 3, 3, 3, 1]);
}
