//! [`Memory`]: a store without a disk, for tests.

use std::sync::Arc;

use crate::history::History;
use crate::state::{Records, StoreState};
use crate::writer::Writer;
use crate::{Engine, Options};
use keel::{Clock, Tasks};

/// The backend in memory.
pub struct Memory;

impl Memory {
    /// An empty store. It is closed when `tasks` stop. Must be called within a runtime, which runs
    /// the deletion of expired records.
    pub fn open(options: Options, clock: &Clock, tasks: &Tasks) -> Arc<Engine> {
        let history = History::new(0, options.bounds());
        let state = Arc::new(StoreState::new(Records::new(), 0, history));
        let quota = options.quota_bytes;
        let writer = Writer::new(Arc::clone(&state), None, clock.clone(), 0, quota);
        Engine::inline(state, writer, clock, tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::conformance::Fixture;

    fn fixture() -> Fixture {
        Fixture::with_manual_clock(|clock, tasks| {
            (Memory::open(Options::default(), clock, tasks), ())
        })
    }

    crate::conformance!(conformance, fixture());

    #[tokio::test]
    async fn a_watch_whose_events_leave_the_history_fails() {
        let options = Options { history_events: 2, ..Options::default() };
        let fixture =
            Fixture::with_manual_clock(|clock, tasks| (Memory::open(options, clock, tasks), ()));
        let mut watch = fixture.watch("/", 0).await;
        for _ in 0..3 {
            fixture.set("/a", "1").await;
        }
        let result = watch.next().await;
        let is_compacted = matches!(result, Err(Error::Compacted { asked: 0, oldest: 1 }));
        assert!(is_compacted, "{result:?}");
    }
}
