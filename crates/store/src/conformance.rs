//! The conformance suite: the behavior that every backend of [`Store`] must have.
//!
//! [`conformance!`](crate::conformance!) makes each case a test of its own. A crate with a backend
//! enables the feature `conformance` of this crate in its `dev-dependencies`:
//!
//! ```
//! use store::{Memory, Options, conformance::Fixture};
//!
//! fn fixture() -> Fixture {
//!     Fixture::with_manual_clock(|clock, tasks| (Memory::open(Options::default(), clock, tasks), ()))
//! }
//!
//! store::conformance!(memory, fixture());
//! ```
//!
//! The cases use only the methods of [`Store`], and [`Fixture`] to let time pass, so that they also
//! run on a backend behind a network. The expression for the fixture may contain `.await`.

#![allow(missing_docs, reason = "a case is described by its name")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a case fails by a panic")]
#![allow(clippy::print_stdout, reason = "a case prints its seed")]

mod watcher;
mod writes;
mod reads;
mod watches;
mod model;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use keel::{Clock, Tasks, Timestamp};

pub use model::*;
pub use reads::*;
pub use watches::*;
pub use writes::*;

pub(crate) use watcher::Watcher;

use crate::{BoxFuture, Event, Expect, Record, Revision, Store};

/// Makes each case of the suite a test in the module `$name`. `$fixture` evaluates to a
/// [`Fixture`](crate::conformance::Fixture) with an empty store, once for each case.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $fixture:expr) => {
        $crate::conformance_cases! { $name, $fixture =>
            a_created_key_can_be_read,
            a_key_is_created_once,
            a_conflicting_write_returns_the_current_record,
            an_update_of_a_missing_key_is_a_conflict,
            a_write_without_expectation_always_happens,
            revisions_increase_by_one_and_are_shared_by_all_keys,
            a_failed_write_takes_no_revision,
            a_deletion_returns_the_record_and_takes_a_revision,
            a_missing_key_cannot_be_deleted,
            a_conflicting_deletion_returns_the_current_record,
            a_deleted_key_can_be_created_again,
            an_expired_record_is_deleted_by_a_watched_write,
            a_record_that_is_written_again_in_time_does_not_expire,
            a_record_that_is_written_again_without_a_ttl_does_not_expire,
            a_closed_store_fails_with_closed,
            a_range_is_sorted_and_limited_to_its_prefix,
            a_range_can_be_read_page_by_page,
            a_range_starts_at_its_prefix_at_the_earliest,
            pages_at_one_revision_do_not_show_later_writes,
            the_state_at_each_past_revision_can_be_read,
            a_compacted_revision_cannot_be_read,
            a_future_revision_cannot_be_read,
            the_future_cannot_be_compacted,
            compacting_twice_is_no_error,
            a_watch_delivers_past_events_first,
            a_watch_delivers_later_events,
            a_watch_is_limited_to_its_prefix,
            an_event_has_the_record_before_and_after_it,
            a_watch_cannot_start_in_the_compacted_past,
            a_watch_cannot_start_in_the_future,
            a_compacted_watch_delivers_all_events_or_fails,
            an_idle_watch_survives_compaction,
            an_idle_watch_reports_progress_on_request,
            a_request_for_progress_does_not_overtake_events,
            a_watch_of_a_closed_store_delivers_the_last_events_and_ends,
            a_canceled_wait_loses_no_event,
            random_scripts_match_the_model,
            // On several threads.
            =>
            one_of_many_concurrent_creations_succeeds,
            concurrent_increments_are_all_applied,
            watches_have_no_gap_under_concurrent_writers,
        }
    };
}

/// Expands the list of cases of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($name:ident, $fixture:expr => $($case:ident,)* => $($concurrent_case:ident,)*) => {
        mod $name {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    let case = async { $crate::conformance::$case(&$fixture).await };
                    $crate::conformance::run(stringify!($case), case).await;
                }
            )*
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $concurrent_case() {
                    let case = async { $crate::conformance::$concurrent_case(&$fixture).await };
                    $crate::conformance::run(stringify!($concurrent_case), case).await;
                }
            )*
        }
    };
}

/// Runs a case. One that does not end within a minute fails: a backend that loses a wakeup must not
/// stop the suite.
#[doc(hidden)]
pub async fn run(name: &str, case: impl Future<Output = ()>) {
    let outcome = tokio::time::timeout(Duration::from_mins(1), case).await;
    assert!(outcome.is_ok(), "{name} does not end within a minute");
}

/// An empty store, with the tasks and the time of a case.
pub struct Fixture {
    pub store: Arc<dyn Store>,
    /// The tasks that a case starts.
    pub tasks: Tasks,
    pass_time: PassTime,
    /// Resources that are dropped after the store, such as its directory.
    _resources: Box<dyn Any + Send + Sync>,
}

type PassTime = Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

impl Fixture {
    /// A fixture whose cases call `pass_time` to let time pass for the store. `resources` are
    /// dropped with the fixture.
    pub fn new(
        store: Arc<dyn Store>,
        tasks: Tasks,
        resources: impl Any + Send + Sync,
        pass_time: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { store, tasks, pass_time: Box::new(pass_time), _resources: Box::new(resources) }
    }

    /// A fixture whose store has a manual clock. `open` returns the store, and
    /// resources that are dropped with the fixture.
    pub fn with_manual_clock<S: Store, R: Any + Send + Sync>(
        open: impl FnOnce(&Clock, &Tasks) -> (Arc<S>, R),
    ) -> Self {
        let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
        let tasks = Tasks::new();
        let (store, resources) = open(&clock, &tasks);
        Self::new(store, tasks, resources, move |duration| {
            clock.advance(duration);
            Box::pin(std::future::ready(()))
        })
    }

    /// A watch that starts after `after`.
    pub(crate) async fn watch(&self, prefix: &str, after: Revision) -> Watcher {
        Watcher::open(&*self.store, prefix, after).await.unwrap()
    }

    /// Lets `duration` pass for the store.
    pub(crate) async fn pass_time(&self, duration: Duration) {
        (self.pass_time)(duration).await;
    }

    /// Writes `value` without an expectation, and returns the revision.
    pub(crate) async fn set(&self, key: &str, value: &'static str) -> Revision {
        let record = self.store.put(key, value.into(), Expect::Any, None).await.unwrap();
        record.modified
    }

    /// Deletes `key`, and returns the revision.
    pub(crate) async fn unset(&self, key: &str) -> Revision {
        self.store.delete(key, Expect::Any).await.unwrap().revision
    }

    /// All records at a revision, or now, as `key=value`, in the order of keys.
    pub(crate) async fn all(&self, at: Option<Revision>) -> Vec<String> {
        show(&self.store.range("", None, usize::MAX, at).await.unwrap().records)
    }
}

/// Records as `key=value`.
pub(crate) fn show(records: &[Arc<Record>]) -> Vec<String> {
    records.iter().map(|record| format!("{}={}", record.key, text(record))).collect()
}

/// Events as `revision+key=value`, or `revision-key` for a deletion.
pub(crate) fn show_events(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.new {
        Some(new) => format!("{}+{}={}", event.revision, event.key, text(new)),
        None => format!("{}-{}", event.revision, event.key),
    };
    events.iter().map(line).collect()
}

fn text(record: &Record) -> String {
    String::from_utf8_lossy(&record.value).into_owned()
}
