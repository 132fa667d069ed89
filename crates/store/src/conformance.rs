//! The one suite that every backend passes. A backend that fails a case is not a store.
//!
//! The cases use nothing but the [`Store`] trait, and time only by letting it pass, so that a real
//! etcd can be put to the same test.

mod watcher;
mod writes;
mod reads;
mod watches;
mod model;

use std::{any::Any, sync::Arc, time::Duration};

use keel::{Clock, Tasks, Timestamp};

pub(crate) use model::*;
pub(crate) use reads::*;
pub(crate) use watcher::Watcher;
pub(crate) use watches::*;
pub(crate) use writes::*;

use crate::{BoxFuture, Engine, Event, Expect, Record, Revision, Store};

/// Makes each case a test of its own, on a fixture of its own that `$fixture` evaluates to.
macro_rules! conformance {
    ($fixture:expr) => {
        $crate::conformance::cases! { $fixture =>
            a_created_key_can_be_read,
            a_key_is_created_once,
            a_stale_writer_is_told_the_current_record,
            an_update_of_a_missing_key_is_a_conflict,
            a_write_without_expectation_always_happens,
            revisions_increase_by_one_and_are_shared_by_all_keys,
            a_failed_write_takes_no_revision,
            a_deletion_returns_what_was_there_and_takes_a_revision,
            a_missing_key_cannot_be_deleted,
            a_stale_deletion_is_told_the_current_record,
            a_key_that_was_deleted_is_created_anew,
            of_many_racing_creations_one_wins,
            a_counter_incremented_by_many_loses_nothing,
            an_expired_record_is_deleted_for_all_to_see,
            a_record_written_again_in_time_does_not_expire,
            a_record_written_again_without_ttl_stays,
            a_closed_store_says_so,
            a_range_is_sorted_and_keeps_to_its_prefix,
            a_range_can_be_read_page_by_page,
            a_start_before_the_prefix_is_the_prefix,
            pages_at_one_revision_ignore_later_writes,
            the_state_at_each_past_revision_can_be_read,
            a_compacted_revision_cannot_be_read,
            a_future_revision_cannot_be_read,
            the_future_cannot_be_compacted,
            compacting_twice_is_no_error,
            a_watch_delivers_the_past_first,
            a_watch_delivers_what_happens_later,
            a_watch_keeps_to_its_prefix,
            an_event_has_the_record_before_and_after_it,
            a_watch_cannot_start_in_the_compacted_past,
            a_watch_cannot_start_in_the_future,
            a_compacted_watch_delivers_all_events_or_fails,
            an_idle_watch_survives_compaction,
            an_idle_watch_reports_progress_on_request,
            a_request_for_progress_does_not_overtake_events,
            a_watch_ends_with_the_store_but_delivers_the_rest_first,
            a_canceled_wait_loses_nothing,
            watches_see_no_gap_under_concurrent_writers,
            random_scripts_agree_with_the_model,
        }
    };
}

macro_rules! cases {
    ($fixture:expr => $($case:ident,)*) => {
        mod conformance {
            use super::*;
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::conformance::$case(&$fixture).await;
                }
            )*
        }
    };
}

pub(crate) use {cases, conformance};

/// A store of some backend, empty at first, and what a case needs beside it.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tasks: Tasks,
    pass_time: Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>,
    /// What must live as long as the store, such as its directory.
    _keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    /// A fixture whose store lives by a manual clock.
    pub(crate) fn new<K: Any + Send + Sync>(
        open: impl FnOnce(&Clock, &Tasks) -> (Arc<Engine>, K),
    ) -> Self {
        let clock = Clock::manual(Timestamp::from_seconds(1_700_000_000));
        let tasks = Tasks::new();
        let (store, keep) = open(&clock, &tasks);
        let pass_time = Box::new(move |duration| {
            clock.advance(duration);
            Box::pin(async {}) as BoxFuture<'static, ()>
        });
        Self { store, tasks, pass_time, _keep: Box::new(keep) }
    }

    /// A watch that starts after `after`.
    pub(crate) async fn watch(&self, prefix: &str, after: Revision) -> Watcher {
        Watcher::open(&*self.store, prefix, after).await.unwrap()
    }

    /// Lets `duration` pass for the store.
    pub(crate) async fn pass_time(&self, duration: Duration) {
        (self.pass_time)(duration).await;
    }

    /// Writes `value` whatever is there, and returns the revision.
    pub(crate) async fn set(&self, key: &str, value: &'static str) -> Revision {
        let record = self.store.put(key, value.into(), Expect::Any, None).await.unwrap();
        record.modified
    }

    /// Deletes `key`, and returns the revision.
    pub(crate) async fn unset(&self, key: &str) -> Revision {
        self.store.delete(key, Expect::Any).await.unwrap().revision
    }

    /// All records at some revision, as `key=value`, sorted.
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
