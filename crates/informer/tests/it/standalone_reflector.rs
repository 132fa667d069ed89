//! A [`Reflector`] on its own, with items that are not Kubernetes objects: a source whose responses
//! the test writes, and a store that records each call.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;

use informer::{
    List, ListRequest, ListWatch, ListWatchError, Reflector, ReflectorItem, ReflectorOptions,
    ReflectorPhase, ReflectorStatus, ReflectorStore, Transaction, WatchEvent, WatchRequest,
    WatchStream,
};
use keel::{Clock, Entropy, Tasks, Timestamp};

#[derive(Debug, Clone)]
struct Record {
    key: &'static str,
    revision: u64,
}

impl ReflectorItem for Record {
    type Key = &'static str;

    fn key(&self) -> &'static str {
        self.key
    }

    fn resource_version(&self) -> Cow<'_, str> {
        self.revision.to_string().into()
    }
}

fn record(key: &'static str, revision: u64) -> Record {
    Record { key, revision }
}

fn modified(key: &'static str, revision: u64) -> WatchEvent<Record> {
    WatchEvent::Modified(record(key, revision))
}

fn lost_connection() -> ListWatchError {
    ListWatchError::Connection(Box::new(io::Error::other("connection reset")))
}

fn compacted() -> ListWatchError {
    ListWatchError::Expired("revision 1 was compacted".into())
}

/// One response of the source.
enum ScriptedResponse {
    /// The keys of a list, and its revision.
    List(&'static [&'static str], u64),
    /// The events of a watch, and its end.
    Watch(Vec<WatchEvent<Record>>, End),
    Refuse(ListWatchError),
    /// The request never gets a response.
    Never,
}

enum End {
    /// The watch stays open.
    Open,
    Closed,
    Failed(ListWatchError),
}

/// Gives the responses in their order, whatever is requested, and is stopped afterwards.
struct Script(Mutex<VecDeque<ScriptedResponse>>);

impl Script {
    fn next(&self) -> ScriptedResponse {
        self.0
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or(ScriptedResponse::Refuse(ListWatchError::Stopped))
    }
}

impl ListWatch<Record> for Script {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<List<Record>, ListWatchError>> {
        assert!(request.continue_token.is_none());
        Box::pin(async {
            match self.next() {
                ScriptedResponse::List(keys, revision) => Ok(List {
                    items: keys.iter().map(|key| record(key, revision)).collect(),
                    resource_version: revision.to_string(),
                    ..List::default()
                }),
                ScriptedResponse::Refuse(error) => Err(error),
                ScriptedResponse::Never => std::future::pending().await,
                ScriptedResponse::Watch(..) => panic!("a list was requested instead of a watch"),
            }
        })
    }

    fn watch(
        &self,
        request: WatchRequest,
    ) -> BoxFuture<'_, Result<WatchStream<Record>, ListWatchError>> {
        assert_eq!(request.timeout_seconds, None);
        Box::pin(async {
            match self.next() {
                ScriptedResponse::Watch(events, end) => {
                    let events = stream::iter(events.into_iter().map(Ok));
                    Ok(match end {
                        End::Open => events.chain(stream::pending()).boxed(),
                        End::Closed => events.boxed(),
                        End::Failed(error) => events.chain(stream::iter([Err(error)])).boxed(),
                    })
                }
                ScriptedResponse::Refuse(error) => Err(error),
                ScriptedResponse::Never => std::future::pending().await,
                ScriptedResponse::List(..) => panic!("a watch was requested instead of a list"),
            }
        })
    }

    fn uses_watch_list(&self) -> bool {
        false
    }
}

/// The calls so far: `=a,b@7` for a replacement, `+a@8 ~b@9 -a@10` for one batch of transactions,
/// `|11` for a bookmark.
#[derive(Default)]
struct Calls(Mutex<Vec<String>>);

impl ReflectorStore<Record> for Calls {
    fn replace<'a>(&'a self, items: Vec<Record>, version: &'a str) -> BoxFuture<'a, ()> {
        let keys: Vec<&str> = items.iter().map(|record| record.key).collect();
        self.0.lock().unwrap().push(format!("={}@{version}", keys.join(",")));
        Box::pin(async {})
    }

    fn apply(&self, transactions: Vec<Transaction<Record>>) {
        let words = transactions.iter().map(|transaction| {
            let (mark, record) = match transaction {
                Transaction::Add(record) => ('+', record),
                Transaction::Update(record) => ('~', record),
                Transaction::Delete(record) => ('-', record),
            };
            format!("{mark}{}@{}", record.key, record.revision)
        });
        let batch: Vec<String> = words.collect();
        self.0.lock().unwrap().push(batch.join(" "));
    }

    fn bookmark(&self, resource_version: &str) {
        self.0.lock().unwrap().push(format!("|{resource_version}"));
    }
}

struct TestReflector {
    calls: Arc<Calls>,
    status: watch::Receiver<ReflectorStatus>,
    clock: Clock,
    tasks: Tasks,
}

impl TestReflector {
    fn start(script: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        Self::start_at(None, script)
    }

    fn start_at(version: Option<&str>, script: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        Self::start_with(&ReflectorOptions::default(), version, script)
    }

    fn start_with(
        options: &ReflectorOptions,
        version: Option<&str>,
        script: impl IntoIterator<Item = ScriptedResponse>,
    ) -> Self {
        let (calls, tasks) = (Arc::<Calls>::default(), Tasks::new());
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let source = Arc::new(Script(Mutex::new(script.into_iter().collect())));
        let store: Arc<Calls> = Arc::clone(&calls);
        let options = ReflectorOptions { watch_timeout: None, ..options.clone() };
        let mut reflector = Reflector::new(source, store, options, &clock, &Entropy::seeded(1));
        if let Some(version) = version {
            reflector = reflector.starting_at(version.to_owned());
        }
        let status = reflector.status();
        let shutdown = tasks.shutdown();
        tasks.spawn("reflector", async {
            tokio::select! {
                () = reflector.run() => {}
                () = shutdown => {}
            }
        });
        Self { calls, status, clock, tasks }
    }

    /// Yields often enough that the reflector runs until it waits for the source or for a delay.
    async fn quiesce(&self) {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock from deadline to deadline until the source is stopped, and returns all calls.
    async fn run(self) -> Vec<String> {
        for _ in 0..50 {
            self.quiesce().await;
            if self.status.borrow().phase == ReflectorPhase::Stopped {
                self.tasks.stop(Duration::from_secs(5)).await.unwrap();
                return self.take_calls();
            }
            let deadline = self.clock.next_deadline().expect("a delay or a timeout");
            self.clock.advance(deadline.since(self.clock.now()));
        }
        panic!("never stopped: {:?}", self.status.borrow());
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.0.lock().unwrap())
    }
}

/// Compares the calls of the store during a whole script.
async fn check(script: Vec<ScriptedResponse>, expected: &[&str]) {
    assert_eq!(TestReflector::start(script).run().await, expected);
}

#[tokio::test]
async fn events_that_are_ready_together_are_applied_by_one_call() {
    let events = vec![
        WatchEvent::Added(record("b", 8)),
        modified("a", 9),
        WatchEvent::Bookmark { resource_version: "12".to_owned(), initial_events_end: false },
        WatchEvent::Deleted(record("a", 13)),
    ];
    let script =
        vec![ScriptedResponse::List(&["a"], 7), ScriptedResponse::Watch(events, End::Closed)];
    check(script, &["=a@7", "+b@8 ~a@9", "|12", "-a@13"]).await;
}

#[tokio::test]
async fn a_long_batch_is_split() {
    let events = (8..1008).map(|revision| modified("a", revision)).collect();
    let script = [ScriptedResponse::List(&["a"], 7), ScriptedResponse::Watch(events, End::Closed)];
    let calls = TestReflector::start(script).run().await;
    assert_eq!(calls.len(), 5);
    assert!(calls.iter().all(|call| call.split(' ').count() <= 256));
    assert!(calls[4].ends_with("~a@1007"));
}

#[tokio::test]
async fn items_of_one_transaction_share_a_version() {
    let events = vec![modified("a", 8), modified("b", 8)];
    let script =
        vec![ScriptedResponse::List(&["a", "b"], 7), ScriptedResponse::Watch(events, End::Closed)];
    check(script, &["=a,b@7", "~a@8 ~b@8"]).await;
}

#[tokio::test]
async fn a_compacted_version_leads_to_a_list() {
    let script = vec![
        ScriptedResponse::List(&["a"], 7),
        ScriptedResponse::Watch(vec![modified("a", 8)], End::Failed(compacted())),
        ScriptedResponse::List(&["b"], 20),
        ScriptedResponse::Refuse(compacted()),
        ScriptedResponse::List(&["c"], 30),
    ];
    check(script, &["=a@7", "~a@8", "=b@20", "=c@30"]).await;
}

#[tokio::test]
async fn a_lost_connection_leads_to_another_watch_from_the_same_version() {
    let script = vec![
        ScriptedResponse::List(&["a"], 7),
        ScriptedResponse::Watch(vec![modified("a", 8)], End::Failed(lost_connection())),
        ScriptedResponse::Refuse(lost_connection()),
        ScriptedResponse::Watch(vec![modified("a", 8), modified("a", 9)], End::Closed),
    ];
    check(script, &["=a@7", "~a@8", "~a@9"]).await;
}

#[tokio::test]
async fn a_first_failure_is_retried_at_once_on_request_and_the_next_one_after_a_delay() {
    let script = [
        ScriptedResponse::Watch(vec![modified("a", 8)], End::Failed(compacted())),
        ScriptedResponse::List(&["b"], 20),
        ScriptedResponse::Refuse(compacted()),
        ScriptedResponse::List(&["c"], 30),
    ];
    let options = ReflectorOptions { retries_at_once: true, ..ReflectorOptions::default() };
    let reflector = TestReflector::start_with(&options, Some("7"), script);
    reflector.quiesce().await;
    assert_eq!(reflector.take_calls(), ["~a@8", "=b@20"]);
    assert!(reflector.clock.next_deadline().is_some());
    assert_eq!(reflector.run().await, ["=c@30"]);
}

#[tokio::test]
async fn a_request_without_a_response_is_sent_again() {
    let script = vec![
        ScriptedResponse::Never,
        ScriptedResponse::List(&["a"], 7),
        ScriptedResponse::Never,
        ScriptedResponse::Watch(vec![modified("a", 8)], End::Closed),
    ];
    check(script, &["=a@7", "~a@8"]).await;
}

#[tokio::test]
async fn a_request_fails_after_the_request_timeout() {
    let request_timeout = Duration::from_mins(10);
    let options = ReflectorOptions { request_timeout, ..ReflectorOptions::default() };
    for version in [None, Some("7")] {
        let reflector = TestReflector::start_with(&options, version, [ScriptedResponse::Never]);
        reflector.quiesce().await;
        reflector.clock.advance(Duration::from_secs(599));
        reflector.quiesce().await;
        assert_eq!(reflector.status.borrow().failures, 0);
        reflector.clock.advance(Duration::from_secs(1));
        reflector.quiesce().await;
        assert_eq!(reflector.status.borrow().failures, 1);
        reflector.run().await;
    }
}

#[tokio::test]
async fn a_start_version_replaces_the_first_list() {
    let events = vec![modified("a", 8)];
    let reflector =
        TestReflector::start_at(Some("7"), [ScriptedResponse::Watch(events, End::Closed)]);
    assert_eq!(reflector.run().await, ["~a@8"]);
}

#[tokio::test]
async fn the_status_shows_the_phase_the_version_and_the_time_of_the_failure() {
    let script = [
        ScriptedResponse::List(&["a"], 7),
        ScriptedResponse::Watch(vec![modified("a", 8)], End::Failed(lost_connection())),
        ScriptedResponse::Refuse(compacted()),
        ScriptedResponse::Refuse(lost_connection()),
        ScriptedResponse::List(&["b"], 20),
        ScriptedResponse::Watch(vec![modified("b", 21)], End::Open),
    ];
    let reflector = TestReflector::start(script);
    assert_eq!(reflector.status.borrow().phase, ReflectorPhase::Listing);
    let mut seen = Vec::new();
    for _ in 0..4 {
        reflector.quiesce().await;
        let status = reflector.status.borrow().clone();
        let version = status.resource_version.unwrap_or_default();
        seen.push((status.phase, version, status.failing_since.is_some()));
        if let Some(deadline) = reflector.clock.next_deadline() {
            reflector.clock.advance(deadline.since(reflector.clock.now()));
        }
    }
    let expected = [
        (ReflectorPhase::Connecting, "8".to_owned(), true),
        (ReflectorPhase::Listing, "8".to_owned(), true),
        (ReflectorPhase::Listing, "8".to_owned(), true),
        (ReflectorPhase::Watching, "21".to_owned(), false),
    ];
    assert_eq!(seen, expected);
    let status = reflector.status.borrow().clone();
    assert_eq!((status.lists, status.watches, status.failures), (2, 2, 3));
    reflector.tasks.stop(Duration::from_secs(5)).await.unwrap();
}
