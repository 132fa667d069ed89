//! Events that a recorder writes to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube_client::Client;
use kube_client::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::faulty::{FaultyClient, RequestOutcome};
use crate::plane::{Plane, until_any};
use crate::world::until;
use runtime::recorder::{EventType, Recorder, Reporter};

const ABOUT: &str = "involvedObject.name=a";

async fn map(plane: &Plane) -> ConfigMap {
    let map = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    plane.api().create(&PostParams::default(), &map).await.unwrap()
}

fn recorder(plane: &Plane, client: Client) -> Recorder {
    let Plane { clock, entropy, tasks, .. } = plane;
    let reporter = Reporter::new("example.com/tester", "tester-0");
    Recorder::start(client, reporter, clock, entropy, tasks)
}

/// A recorder whose first `times` attempts are refused with `code`, and the number of its attempts.
fn refused_recorder(plane: &Plane, code: u16, times: u32) -> (Recorder, Arc<AtomicU32>) {
    let faulty = FaultyClient::new(plane.env.server().in_process_client());
    let attempts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&attempts);
    faulty.decide(move |method, target| {
        let is_event = *method == Method::POST && target.contains("/events");
        if is_event && counted.fetch_add(1, Ordering::SeqCst) < times {
            return RequestOutcome::Refused(code);
        }
        RequestOutcome::Served
    });
    (recorder(plane, Client::new(faulty, "default")), attempts)
}

#[tokio::test]
async fn the_events_of_an_object_are_listed_in_their_order() {
    let plane = Plane::start().await;
    let map = map(&plane).await;
    let recorder = recorder(&plane, plane.client.clone());
    let reasons = ["Scheduled", "Pulled", "Created", "Started"];
    for reason in reasons {
        recorder.record(&map, EventType::Normal, reason, "a step");
        plane.clock.advance(Duration::from_millis(1));
    }
    let events = plane.api::<Event>();
    until_any(&events, "reason=Started", |_| true).await;
    let listed = events.list(&ListParams::default().fields(ABOUT)).await.unwrap();
    let listed: Vec<_> = listed.items.into_iter().filter_map(|it| it.reason).collect();
    assert_eq!(listed, reasons);
}

#[tokio::test]
async fn a_repeated_event_is_counted() {
    let plane = Plane::start().await;
    let map = map(&plane).await;
    let recorder = recorder(&plane, plane.client.clone());
    for _ in 0..3 {
        recorder.record(&map, EventType::Warning, "NoBucket", "the bucket is gone");
    }
    let events = plane.api::<Event>();
    let event = until_any(&events, ABOUT, |it| it.count == Some(3)).await;
    let name = event.metadata.name.unwrap();
    assert!(name.starts_with("a."), "{name}");
    assert_eq!(event.involved_object.uid, map.metadata.uid);
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.reporting_component.as_deref(), Some("example.com/tester"));
    assert_eq!(recorder.dropped(), 0);
    plane.tasks.stop(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_deleted_event_is_created_again_with_its_count() {
    let plane = Plane::start().await;
    let map = map(&plane).await;
    let recorder = recorder(&plane, plane.client.clone());
    let events = plane.api::<Event>();
    let mut names = Vec::new();
    for count in 1..=2 {
        recorder.record(&map, EventType::Normal, "Made", "the bucket is there");
        let event = until_any(&events, ABOUT, |it| it.count == Some(count)).await;
        let name = event.metadata.name.unwrap();
        events.delete(&name, &DeleteParams::default()).await.unwrap();
        names.push(name);
    }
    assert_ne!(names[0], names[1]);
    recorder.record(&map, EventType::Normal, "Made", "the bucket is there");
    recorder.record(&map, EventType::Normal, "Made", "the bucket is there");
    until_any(&events, ABOUT, |it| it.count == Some(4)).await;
    assert_eq!(recorder.dropped(), 0);
}

#[tokio::test]
async fn events_are_written_later_if_the_server_is_busy() {
    for code in [429, 500, 503] {
        let plane = Plane::start().await;
        let map = map(&plane).await;
        let (recorder, attempts) = refused_recorder(&plane, code, 3);
        recorder.record(&map, EventType::Normal, "Made", "the bucket is there");
        until("the fourth attempt", async || {
            plane.clock.advance(Duration::from_secs(1));
            attempts.load(Ordering::SeqCst) == 4
        })
        .await;
        until_any(&plane.api::<Event>(), ABOUT, |it| it.count == Some(1)).await;
        assert_eq!(recorder.dropped(), 0);
    }
}

#[tokio::test]
async fn events_that_are_refused_are_dropped_and_do_not_delay_others() {
    // An event that is refused with 403 is not tried again; other failures are tried five times.
    for (code, expected) in [(403, 1), (503, 5)] {
        let plane = Plane::start().await;
        let map = map(&plane).await;
        let (recorder, attempts) = refused_recorder(&plane, code, expected);
        recorder.record(&map, EventType::Normal, "Lost", "this event is refused");
        recorder.record(&map, EventType::Normal, "Made", "the bucket is there");
        until("the first event is dropped", async || {
            plane.clock.advance(Duration::from_secs(5));
            recorder.dropped() == 1
        })
        .await;
        let event = until_any(&plane.api::<Event>(), ABOUT, |_| true).await;
        assert_eq!(event.reason.as_deref(), Some("Made"));
        assert_eq!(attempts.load(Ordering::SeqCst), expected + 1);
    }
}

#[tokio::test]
async fn events_before_a_stop_are_written() {
    let plane = Plane::start().await;
    let map = map(&plane).await;
    let recorder = recorder(&plane, plane.client.clone());
    for number in 0..5 {
        recorder.record(&map, EventType::Normal, &format!("Made{number}"), "a bucket is there");
    }
    plane.tasks.stop(Duration::from_secs(5)).await.unwrap();
    let events = plane.api::<Event>().list(&ListParams::default().fields(ABOUT)).await.unwrap();
    assert_eq!(events.items.len(), 5);
}

#[tokio::test]
async fn a_stop_ends_although_events_are_refused() {
    let plane = Plane::start().await;
    let map = map(&plane).await;
    let (recorder, attempts) = refused_recorder(&plane, 503, u32::MAX);
    recorder.record(&map, EventType::Normal, "Made", "a bucket is there");
    until("the first attempt", async || attempts.load(Ordering::SeqCst) == 1).await;
    plane.tasks.stop(Duration::from_secs(5)).await.unwrap();
}
