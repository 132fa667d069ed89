//! Watch fan-out: the time from a change to its event at each of many watchers.
//!
//! An object is changed, and changed again when every watcher has received the event. A latency is
//! the time between sending the change and receiving its event at one watcher.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures_util::stream::{self, StreamExt};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::load::Outcome;
use super::objects::{Sample, resource_version};
use super::pool::{JSON, MERGE_PATCH, Pool};
use super::report::{Report, Title};
use super::session::Session;

/// The limit of waiting for an event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of events of all watchers together, which suffices for stable percentiles.
const EVENTS: usize = 20_000;

/// The minimum number of changes, whatever the number of watchers.
const MIN_CHANGES: usize = 10;

/// The number of watches that are opened concurrently.
const OPENING_CONCURRENCY: usize = 32;

/// Measures with a number of watchers.
pub(crate) async fn run(
    session: &Session<'_>,
    sample: &Sample,
    watchers: usize,
    report: &mut Report,
) -> Result<()> {
    session.progress.set_message(format!("opening {watchers} watches"));
    let name = format!("watched-{watchers}");
    let body = sample.body(&name, None, session.next_mark());
    let created = session.pool.post(&sample.collection, body).await?;
    let version = resource_version(&created)?;
    let path = format!("{}?watch=true&resourceVersion={version}", sample.collection);
    let pool = Pool::connect(session.endpoint, 1, watchers, session.tasks).await?;
    let opened = Watchers::open(session, &pool, watchers, &path).await?;
    let most = usize::try_from(session.bound.count).unwrap_or(usize::MAX);
    let changes = (EVENTS / watchers).min(most).max(MIN_CHANGES);
    let title = Title { resource: sample.resource, operation: "watch", concurrency: watchers };
    let object = format!("{}/{name}", sample.collection);
    session.measure(report, title, change(session, sample, &object, &opened, changes)).await;
    drop(opened);
    session.pool.delete(&object).await?;
    Ok(())
}

async fn change(
    session: &Session<'_>,
    sample: &Sample,
    object: &str,
    watchers: &Watchers,
    changes: usize,
) -> Outcome {
    let begun = Instant::now();
    for _ in 0..changes {
        if begun.elapsed() > session.bound.time {
            break;
        }
        watchers.arrivals.begin();
        let body = sample.patch(session.next_mark());
        let changed = session.pool.call(Method::PATCH, object, MERGE_PATCH, body).await;
        let seen = match changed {
            Ok(_) => watchers.arrivals.all(watchers.readers.len()).await,
            Err(error) => Err(error),
        };
        // A watcher that missed one event makes all later figures meaningless.
        if let Err(error) = seen {
            watchers.arrivals.state().outcome.add(Duration::ZERO, Err(error));
            break;
        }
    }
    let mut outcome = std::mem::take(&mut watchers.arrivals.state().outcome);
    outcome.wall = begun.elapsed();
    outcome
}

/// Open watches; closed when dropped.
struct Watchers {
    readers: Vec<JoinHandle<()>>,
    arrivals: Arc<Arrivals>,
}

impl Watchers {
    /// Returns when the server has accepted all watches.
    async fn open(session: &Session<'_>, pool: &Pool, count: usize, path: &str) -> Result<Self> {
        let mut watchers = Self { readers: Vec::with_capacity(count), arrivals: Arc::default() };
        let mut opening = stream::iter(0..count)
            .map(|_| pool.open(Method::GET, path, JSON, String::new()))
            .buffer_unordered(OPENING_CONCURRENCY);
        while let Some(opened) = opening.next().await {
            let body = opened.context("cannot open a watch")?.into_body();
            let reader = read(body, Arc::clone(&watchers.arrivals));
            watchers.readers.push(session.tasks.spawn("watcher", reader));
        }
        Ok(watchers)
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        for reader in &self.readers {
            reader.abort();
        }
    }
}

/// The events that all watchers together have received.
#[derive(Default)]
struct Arrivals {
    state: Mutex<ArrivalState>,
    /// Notified of every event, and when a watch ends.
    changed: Notify,
}

#[derive(Default)]
struct ArrivalState {
    /// The time at which the current change was sent; none before the first change.
    sent: Option<Instant>,
    /// The number of events of the current change.
    arrived: usize,
    /// The number of watches that the server has ended.
    ended: usize,
    outcome: Outcome,
}

impl Arrivals {
    fn begin(&self) {
        let mut state = self.state();
        state.sent = Some(Instant::now());
        state.arrived = 0;
    }

    /// Waits until the given number of watchers has received the event.
    async fn all(&self, watchers: usize) -> Result<()> {
        let wait = async {
            loop {
                let (arrived, ended) = {
                    let state = self.state();
                    (state.arrived, state.ended)
                };
                if ended > 0 {
                    return Err(anyhow!("the server ended {ended} of {watchers} watches"));
                }
                if arrived >= watchers {
                    return Ok(());
                }
                self.changed.notified().await;
            }
        };
        timeout(EVENT_TIMEOUT, wait).await.unwrap_or_else(|_| {
            let arrived = self.state().arrived;
            Err(anyhow!(
                "only {arrived} of {watchers} watchers saw a change within {EVENT_TIMEOUT:?}"
            ))
        })
    }

    fn add(&self, events: usize, bytes: u64) {
        let mut state = self.state();
        let Some(sent) = state.sent else { return };
        for _ in 0..events {
            state.outcome.add(sent.elapsed(), Ok(0));
        }
        state.outcome.bytes += bytes;
        state.arrived += events;
        drop(state);
        self.changed.notify_one();
    }

    fn end(&self) {
        self.state().ended += 1;
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, ArrivalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a watch to its end. Every event is a line, whose content is not parsed: the end of the watch
/// follows an event of type ERROR.
async fn read(mut body: Incoming, arrivals: Arc<Arrivals>) {
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            let events = data.split(|byte| *byte == b'\n').count() - 1;
            arrivals.add(events, data.len() as u64);
        }
    }
    arrivals.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_complete_when_the_last_watcher_has_received_it() {
        let arrivals = Arrivals::default();
        arrivals.begin();
        let seen = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                arrivals.add(1, 100);
            }
        };
        let (all, ()) = tokio::join!(arrivals.all(3), seen);
        all.unwrap();
        let outcome = std::mem::take(&mut arrivals.state().outcome);
        assert_eq!(outcome.latencies, [5, 10, 15].map(Duration::from_millis));
        assert_eq!(outcome.bytes, 300);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watcher_without_an_event_is_an_error_after_the_timeout() {
        let arrivals = Arrivals::default();
        arrivals.begin();
        arrivals.add(1, 0);
        let error = arrivals.all(2).await.unwrap_err().to_string();
        assert!(error.starts_with("only 1 of 2 watchers"), "{error}");
    }

    #[tokio::test]
    async fn a_watch_that_ends_is_an_immediate_error() {
        let arrivals = Arrivals::default();
        arrivals.begin();
        arrivals.add(2, 0);
        arrivals.end();
        let error = arrivals.all(2).await.unwrap_err().to_string();
        assert!(error.contains("ended 1 of 2"), "{error}");
    }
}
