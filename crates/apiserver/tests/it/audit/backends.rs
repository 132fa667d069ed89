//! Backends of the audit log: webhooks, full buffers, files that cannot be written.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};

use super::{events_in, policy, settings};
use crate::https::Https;
use crate::log::Log;
use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::audit::{AuditSettings, BatchSettings, Delivery, Mode, WebhookSettings};
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;
use machinery::{Value, json};
use testenv::TestEnv;

/// Records only deletions, so that the server itself causes no events.
const DELETIONS: &str =
    "- {level: Metadata, verbs: [delete], omitStages: [RequestReceived], users: [sampan-admin]}";

/// The code of a request that is never answered.
const HANGS: u16 = 0;

/// A server that receives events.
struct Receiver {
    https: Https,
    /// The lists so far.
    lists: Arc<Mutex<Vec<Value>>>,
    headers: Arc<Mutex<Vec<String>>>,
}

impl Receiver {
    /// A server that responds to the nth request, from 0, with a code.
    async fn start(code: impl Fn(usize) -> u16 + Send + Sync + 'static) -> Self {
        let (lists, headers) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::default());
        let (received, seen) = (Arc::clone(&lists), Arc::<Mutex<Vec<String>>>::clone(&headers));
        let https = Https::start("audit.test", move |request: Request<Bytes>| {
            let credentials = request.headers()["authorization"].to_str().unwrap().to_owned();
            seen.lock().unwrap().push(credentials);
            let mut lists = received.lock().unwrap();
            let code = code(lists.len());
            lists.push(serde_json::from_slice(request.body()).unwrap());
            async move {
                if code == HANGS {
                    std::future::pending::<()>().await;
                }
                Response::builder().status(code).body(Bytes::new()).unwrap()
            }
        })
        .await;
        Self { https, lists, headers }
    }

    /// The settings of a plane that sends its events to this server.
    fn settings(&self, delivery: Delivery) -> AuditSettings {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let (address, authority) = (self.https.address, self.https.ca_bundle());
        let config = json!({
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{address}/events"),
                "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": "t0"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        std::fs::write(&path, config.to_string()).unwrap();
        let webhook = WebhookSettings {
            endpoint: WebhookEndpoint::read(&path).unwrap(),
            initial_backoff: Duration::from_millis(10),
            delivery,
        };
        AuditSettings { policy: policy(DELETIONS), log: None, webhook: Some(webhook) }
    }

    /// The stages of all events, in the order of their lists.
    fn stages(&self) -> Vec<String> {
        let lists = self.lists.lock().unwrap();
        let events = lists.iter().flat_map(|it| it["items"].as_array().unwrap());
        events.map(|it| it["stage"].as_str().unwrap().to_owned()).collect()
    }

    /// The number of events in each list.
    fn sizes(&self) -> Vec<usize> {
        let lists = self.lists.lock().unwrap();
        lists.iter().map(|it| it["items"].as_array().unwrap().len()).collect()
    }

    async fn until_sizes(&self, expected: &[usize]) {
        let wait = async {
            while self.sizes() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "{:?} instead of {expected:?}", self.sizes());
    }
}

fn batches(buffer_size: usize, max_size: usize, max_wait: Duration) -> Delivery {
    let batch = BatchSettings { buffer_size, max_size, max_wait, throttle: None };
    Delivery { mode: Mode::Batch, batch, truncation: None }
}

fn blocking(mode: Mode) -> Delivery {
    Delivery { mode, ..Delivery::of_webhook() }
}

async fn delete(plane: &TestEnv, name: &str) -> u16 {
    plane.delete(&format!("{CONFIG_MAPS}/{name}")).await.0
}

/// The value of a metric, 0 if it has none yet.
async fn metric(plane: &TestEnv, name: &str) -> u64 {
    let text = plane.get_as("/metrics", "text/plain").await.text().to_owned();
    let line = text.lines().find(|it| it.starts_with(&format!("{name} ")));
    line.map_or(0, |it| it.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_webhook_receives_batches_of_events() {
    let receiver = Receiver::start(|_| 200).await;
    let settings = receiver.settings(batches(100, 2, Duration::from_secs(30)));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    for name in ["a", "b", "c"] {
        assert_eq!(delete(&plane, name).await, 404);
    }
    receiver.until_sizes(&[2]).await;
    // The task may begin to wait after the first step of the clock.
    let steps = async {
        loop {
            plane.advance(Duration::from_secs(31));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = receiver.until_sizes(&[2, 1]) => {}
        () = steps => {}
    }
    let list = receiver.lists.lock().unwrap()[0].clone();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("EventList"), &json!("audit.k8s.io/v1"))
    );
    assert_eq!(list["items"][1]["objectRef"]["name"], "b");
    assert_eq!(receiver.headers.lock().unwrap()[0], "Bearer t0");
}

#[tokio::test]
async fn a_batch_that_fails_is_sent_again() {
    let receiver = Receiver::start(|attempt| if attempt == 0 { 500 } else { 200 }).await;
    let settings = receiver.settings(batches(100, 1, Duration::ZERO));
    let builder = TestEnv::builder().system_clock();
    let plane = builder.config(|it| it.audit = Some(settings)).start().await;
    delete(&plane, "a").await;
    receiver.until_sizes(&[1, 1]).await;
    let lists = receiver.lists.lock().unwrap().clone();
    assert_eq!(lists[0], lists[1]);
    assert_eq!(metric(&plane, "apiserver_audit_error_total{plugin=\"webhook\"}").await, 0);
}

#[tokio::test]
async fn buffers_are_emptied_when_the_plane_stops() {
    let receiver = Receiver::start(|_| 200).await;
    let settings = receiver.settings(batches(100, 50, Duration::from_hours(1)));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    for name in ["a", "b", "c"] {
        delete(&plane, name).await;
    }
    assert_eq!(receiver.sizes(), [0; 0]);
    plane.stop().await.unwrap();
    assert_eq!(receiver.sizes(), [3]);
}

#[tokio::test]
async fn events_that_do_not_fit_into_the_buffer_are_counted_and_logged() {
    let log = Log::start();
    let receiver = Receiver::start(|_| 200).await;
    let settings = receiver.settings(batches(2, 1000, Duration::from_hours(1)));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    // The test has one thread, so the task that empties the buffer runs between requests only.
    let deletions = (0..10).map(|it| format!("{CONFIG_MAPS}/n{it}"));
    let deletions = deletions.map(|it| {
        let plane = &plane;
        async move { plane.delete(&it).await }
    });
    futures_util::future::join_all(deletions).await;
    let dropped = metric(&plane, "apiserver_audit_error_total{plugin=\"buffered\"}").await;
    assert!(dropped > 0, "nothing was dropped");
    assert_eq!(metric(&plane, "apiserver_audit_event_total").await, 10);
    log.until(&["audit events were lost", "audit buffer queue blocked"]).await;
    plane.stop().await.unwrap();
    let received: usize = receiver.sizes().iter().sum();
    assert_eq!(received as u64 + dropped, 10, "every event was sent or counted");
}

#[tokio::test]
async fn a_blocking_webhook_has_the_event_before_the_response() {
    let receiver = Receiver::start(|_| 200).await;
    let settings = receiver.settings(blocking(Mode::Blocking));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    delete(&plane, "a").await;
    assert_eq!(receiver.sizes(), [1]);
}

#[tokio::test]
async fn only_the_strict_mode_rejects_requests_without_events() {
    for (mode, expected) in [(Mode::Blocking, 404), (Mode::BlockingStrict, 500)] {
        let receiver = Receiver::start(|_| 503).await;
        let mut settings = receiver.settings(blocking(mode));
        settings.policy = policy("- {level: Metadata, verbs: [delete], users: [sampan-admin]}");
        let builder = TestEnv::builder().system_clock();
        let plane = builder.config(|it| it.audit = Some(settings)).start().await;
        assert_eq!(delete(&plane, "a").await, expected, "{mode:?}");
        let rejected = metric(&plane, "apiserver_audit_requests_rejected_total").await;
        assert_eq!(rejected, u64::from(mode == Mode::BlockingStrict));
        assert!(metric(&plane, "apiserver_audit_error_total{plugin=\"webhook\"}").await > 0);
    }
}

/// A plane whose requests wait for `receiver`, and which records all stages of deletions and watches.
async fn waiting_plane(receiver: &Receiver) -> TestEnv {
    let mut settings = receiver.settings(blocking(Mode::Blocking));
    settings.policy = policy("- {level: Metadata, verbs: [delete, watch], users: [sampan-admin]}");
    TestEnv::builder().config(|it| it.audit = Some(settings)).start().await
}

/// Sends a request, and leaves when `receiver` has got its `nth` list, from 0.
async fn leave(receiver: &Receiver, nth: usize, request: impl Future) {
    let expected = vec![1; nth + 1];
    tokio::select! {
        _ = request => panic!("the request did not wait for its event"),
        () = receiver.until_sizes(&expected) => {}
    }
}

/// Waits for the stages that `receiver` has got.
async fn until_stages(receiver: &Receiver, expected: &[&str]) {
    let wait = async {
        while receiver.stages() != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
    assert!(waited.is_ok(), "{:?} instead of {expected:?}", receiver.stages());
}

#[tokio::test]
async fn the_events_of_a_client_that_leaves_reach_a_webhook_that_hangs_for_a_while() {
    let (received, started, complete) = ("RequestReceived", "ResponseStarted", "ResponseComplete");
    // The client leaves at the nth list.
    for (hanging, expected) in [
        (0, [received, received, complete].as_slice()),
        (1, [received, complete, complete].as_slice()),
    ] {
        let receiver = Receiver::start(move |nth| if nth == hanging { HANGS } else { 200 }).await;
        let plane = waiting_plane(&receiver).await;
        leave(&receiver, hanging, delete(&plane, "a")).await;
        until_stages(&receiver, expected).await;
    }
    let receiver = Receiver::start(|nth| if nth == 1 { HANGS } else { 200 }).await;
    let plane = waiting_plane(&receiver).await;
    let uri = format!("{CONFIG_MAPS}?watch=true");
    leave(&receiver, 1, plane.watch(&uri)).await;
    until_stages(&receiver, &[received, started, started, complete]).await;
}

#[tokio::test]
async fn a_response_waits_for_a_webhook_until_the_deadline_of_the_request() {
    let receiver = Receiver::start(|nth| if nth == 0 { HANGS } else { 200 }).await;
    let settings = receiver.settings(blocking(Mode::Blocking));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    let uri = format!("{CONFIG_MAPS}/a?timeout=1s");
    let response = tokio::time::timeout(Duration::from_secs(20), plane.delete(&uri)).await;
    assert_eq!(response.unwrap().0, 404, "the response itself was in time");
    until_stages(&receiver, &["ResponseComplete", "ResponseComplete"]).await;
}

#[tokio::test]
async fn a_buffered_log_is_written_when_the_plane_stops() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let mut settings = settings(DELETIONS, &path);
    settings.log.as_mut().unwrap().delivery = batches(100, 50, Duration::from_hours(1));
    let plane = TestEnv::builder().config(|it| it.audit = Some(settings)).start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    delete(&plane, "a").await;
    delete(&plane, "a").await;
    plane.stop().await.unwrap();
    let codes: Vec<Value> =
        events_in(&path).iter().map(|it| it["responseStatus"]["code"].clone()).collect();
    assert_eq!(codes, [json!(200), json!(404)]);
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_a_reason_not_to_start() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(DELETIONS, directory.path());
    let started = TestEnv::builder().config(|it| it.audit = Some(settings)).try_start().await;
    assert_eq!(started.err().unwrap().to_string(), "cannot record requests");
}
