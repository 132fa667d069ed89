//! Watches: events, their order, start and end.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http_body_util::BodyExt;

use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, labeled, thing, thing_crd};
use machinery::{Value, json};
use testenv::media_type::{JSON, TABLE};
use testenv::{START, TestEnv, Watch};

/// Writes things until the event log, which holds 64 MiB, has dropped all earlier events.
pub(crate) async fn overflow_event_log(plane: &TestEnv) {
    plane.create(THINGS, &thing("zz", &json!({"bulk": "x".repeat(1_400_000)}))).await;
    for turn in 0..50 {
        plane.merge(&format!("{THINGS}/zz"), &json!({"spec": {"turn": turn}})).await;
    }
    assert_eq!(plane.delete(&format!("{THINGS}/zz")).await.0, 200);
}

fn revision(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

#[tokio::test]
async fn a_watch_resumes_without_a_gap_or_a_repetition() {
    let plane = TestEnv::start().await;
    let list = plane.read(CONFIG_MAPS).await;
    let mut from = revision(&list).to_owned();
    let mut written = Vec::new();
    let mut seen = Vec::new();
    for round in 0..4 {
        for index in 0..5 {
            let name = format!("m{round}-{index}");
            written.push(
                revision(&plane.create(CONFIG_MAPS, &config_map(&name, &json!({}))).await)
                    .to_owned(),
            );
        }
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
        let mut watch = plane.watch(&path).await;
        // The next watch reads the last event of each round.
        while seen.len() < written.len() - 1 {
            from = revision(&watch.expect("ADDED").await).to_owned();
            seen.push(from.clone());
        }
    }
    assert_eq!(seen, written[..written.len() - 1]);
}

#[tokio::test]
async fn watchers_of_the_same_format_share_the_encoding_of_an_event() {
    let plane = TestEnv::start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"n": "0"}))).await;
    let from = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&created));
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let formats = [
        ("", JSON),
        ("&pretty=1", JSON),
        ("", partial),
        ("", TABLE),
        ("&includeObject=None", TABLE),
        ("&includeObject=Object", TABLE),
        ("", "application/vnd.kubernetes.protobuf;stream=watch"),
    ];
    let mut watches = Vec::new();
    for (query, accept) in formats {
        let path = format!("{from}{query}");
        let pair =
            [plane.get_streaming(&path, accept).await, plane.get_streaming(&path, accept).await];
        watches.push(pair.map(http::Response::into_body));
    }
    // Only the first event of a watch as a Table has columns.
    let mut late = None;
    for turn in ["1", "2"] {
        let changed = plane.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"n": turn}})).await;
        let mut events = Vec::new();
        for ([one, other], (query, accept)) in watches.iter_mut().zip(formats) {
            let one = one.frame().await.unwrap().unwrap().into_data().unwrap();
            let other = other.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(one, other);
            assert_eq!(one.as_ptr(), other.as_ptr(), "{accept} {query} is encoded twice");
            let text = String::from_utf8_lossy(&one).into_owned();
            let has_columns = text.contains("\"columnDefinitions\":[");
            assert_eq!(has_columns, accept == TABLE && turn == "1", "{text}");
            events.push(text);
        }
        assert_eq!(events[0], events[1], "events are never indented");
        let different: HashSet<String> = events.into_iter().collect();
        assert_eq!(different.len(), formats.len() - 1);
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&changed));
        late.get_or_insert(plane.get_streaming(&path, TABLE).await.into_body());
    }
    let event = late.unwrap().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&event).contains("\"columnDefinitions\":["));
}

#[tokio::test]
async fn the_age_in_a_row_is_computed_when_it_is_sent() {
    let plane = TestEnv::start().await;
    let from = revision(&plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await).to_owned();
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
    for age in ["0s", "15s"] {
        let mut events = plane.get_streaming(&path, TABLE).await.into_body();
        let event = events.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&event).unwrap();
        assert_eq!(event["object"]["rows"][0]["cells"], json!(["b", 0, age]));
        plane.advance(Duration::from_secs(15));
    }
}

#[tokio::test]
async fn a_long_history_is_sent_in_order() {
    let plane = TestEnv::start().await;
    let created = plane.create(CONFIG_MAPS, &config_map("a", &json!({"n": "0"}))).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&created));
    let mut watch = plane.watch(&path).await;
    for turn in 1..=400 {
        plane.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"n": turn.to_string()}})).await;
    }
    for turn in 1..=400 {
        assert_eq!(watch.expect("MODIFIED").await["data"]["n"], turn.to_string());
    }
}

#[tokio::test]
async fn objects_that_start_or_stop_matching_are_added_or_deleted() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}?watch=1&labelSelector=tier%3Dfront");
    let mut watch = plane.watch(&path).await;
    let object = format!("{CONFIG_MAPS}/a");
    plane.create(CONFIG_MAPS, &labeled("a", "tier", "back")).await;
    plane.merge(&object, &json!({"metadata": {"labels": {"tier": "front"}}})).await;
    assert_eq!(watch.expect("ADDED").await["metadata"]["name"], "a");
    plane.merge(&object, &json!({"data": {"k": "v"}})).await;
    assert_eq!(watch.expect("MODIFIED").await["data"]["k"], "v");
    let gone = plane.merge(&object, &json!({"metadata": {"labels": {"tier": "back"}}})).await;
    let deleted = watch.expect("DELETED").await;
    assert_eq!(deleted["metadata"]["labels"]["tier"], "front", "the last state that matched");
    assert_eq!(revision(&deleted), revision(&gone), "the revision of the change");
    plane.delete(&object).await;
    plane.create(CONFIG_MAPS, &labeled("b", "tier", "front")).await;
    assert_eq!(
        watch.next_summary().await,
        "ADDED b",
        "the deletion of an object that does not match is not reported"
    );
}

#[tokio::test]
async fn a_watch_reports_only_its_namespace_and_name() {
    let plane = TestEnv::start().await;
    let mut named =
        plane.watch(&format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Db")).await;
    let now = plane.read(CONFIG_MAPS).await;
    let now = revision(&now);
    let from_now = format!("/api/v1/configmaps?watch=1&resourceVersion={now}");
    let mut all = plane.watch(&from_now).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create("/api/v1/namespaces/kube-system/configmaps", &config_map("b", &json!({}))).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    assert_eq!(named.expect("ADDED").await["metadata"]["namespace"], "default");
    for expected in ["ADDED a", "ADDED b", "ADDED b"] {
        assert_eq!(all.next_summary().await, expected);
    }
}

#[tokio::test]
async fn a_watch_without_a_revision_starts_with_existing_objects() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    for start in ["", "&resourceVersion=0"] {
        let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1{start}")).await;
        assert_eq!(
            (watch.next_summary().await, watch.next_summary().await),
            ("ADDED a".into(), "ADDED b".into())
        );
    }
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_and_the_watch_continues() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let last = plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let path = format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = plane.watch(&path).await;
    assert_eq!(
        (watch.next_summary().await, watch.next_summary().await),
        ("ADDED a".into(), "ADDED b".into())
    );
    let bookmark = watch.expect("BOOKMARK").await;
    assert_eq!(bookmark["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(
        (bookmark["kind"].as_str(), revision(&bookmark)),
        (Some("ConfigMap"), revision(&last))
    );
    plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(watch.next_summary().await, "DELETED a");
}

#[tokio::test]
async fn a_bookmark_is_sent_every_minute_and_covers_filtered_events() {
    let plane = TestEnv::start().await;
    let list = plane.read(CONFIG_MAPS).await;
    let from = revision(&list);
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}&allowWatchBookmarks=true");
    let mut watch = plane.watch(&path).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let other = plane.create(secrets, &json!({"metadata": {"name": "s"}})).await;
    plane.advance(Duration::from_secs(59));
    let seen = plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    plane.advance(Duration::from_secs(1));
    assert_eq!(revision(&watch.expect("BOOKMARK").await), revision(&seen));
    let later =
        plane.merge(&format!("{secrets}/s"), &json!({"type": null, "data": {"k": ""}})).await;
    assert_ne!(revision(&later), revision(&other));
    plane.read(&format!("{secrets}/s")).await;
    plane.advance(Duration::from_mins(1));
    assert_eq!(revision(&watch.expect("BOOKMARK").await), revision(&later));
}

/// The type of an event that is available without waiting, or "" if there is none.
async fn available_event(watch: &mut Watch) -> String {
    let mut next = pin!(watch.next());
    let polled = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
    match polled {
        Poll::Ready(event) => event.expect("the watch goes on").0,
        Poll::Pending => String::new(),
    }
}

#[tokio::test]
async fn a_bookmark_is_sent_in_time_after_other_events() {
    let plane = TestEnv::start().await;
    let list = plane.read(CONFIG_MAPS).await;
    let from = revision(&list);
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}&allowWatchBookmarks=true");
    let mut watch = plane.watch(&format!("{path}&labelSelector=tier%3Dfront")).await;
    assert_eq!(available_event(&mut watch).await, "");
    plane.create(CONFIG_MAPS, &labeled("a", "tier", "back")).await;
    plane.read(CONFIG_MAPS).await;
    assert_eq!(available_event(&mut watch).await, "", "the object does not match");
    plane.advance(Duration::from_mins(1));
    assert_eq!(available_event(&mut watch).await, "BOOKMARK");
    assert_eq!(available_event(&mut watch).await, "");
    plane.create(CONFIG_MAPS, &labeled("b", "tier", "front")).await;
    plane.read(CONFIG_MAPS).await;
    plane.advance(Duration::from_mins(1));
    assert_eq!(available_event(&mut watch).await, "ADDED", "the event comes before the bookmark");
    assert_eq!(available_event(&mut watch).await, "BOOKMARK");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_after_a_bookmark() {
    let plane = TestEnv::start().await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=10");
    let mut plain = plane.watch(&path).await;
    let mut marked = plane.watch(&format!("{path}&allowWatchBookmarks=true")).await;
    let bookmark = marked.expect("BOOKMARK").await;
    assert_eq!(bookmark["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    plane.advance(Duration::from_secs(8));
    let bookmark = marked.expect("BOOKMARK").await;
    assert_eq!(bookmark["metadata"].get("annotations"), None);
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(plain.next_summary().await, "ADDED a");
    assert_eq!(marked.next_summary().await, "ADDED a");
    plane.advance(Duration::from_secs(2));
    assert_eq!((plain.next().await, marked.next().await), (None, None));
}

#[tokio::test]
async fn a_watch_has_its_full_timeout_when_the_clock_is_set() {
    let plane = TestEnv::start().await;
    let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=10")).await;
    assert_eq!(available_event(&mut watch).await, "");
    plane.clock().jump(START + Duration::from_hours(1));
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(watch.next_summary().await, "ADDED a");
    assert_eq!(available_event(&mut watch).await, "");
    plane.clock().jump(START);
    plane.advance(Duration::from_secs(10));
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn a_watch_from_before_the_log_gets_expired() {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    let created = plane.create(THINGS, &thing("a", &json!({}))).await;
    let path = format!("{THINGS}?watch=1&resourceVersion={}", revision(&created));
    let mut idle = plane.watch(&path).await;
    plane.merge(&format!("{THINGS}/a"), &json!({"spec": {"k": "v"}})).await;
    overflow_event_log(&plane).await;
    for watch in [&mut idle, &mut plane.watch(&path).await] {
        let error = watch.expect("ERROR").await;
        assert_eq!((&error["code"], &error["reason"]), (&json!(410), &json!("Expired")));
        assert_eq!(watch.next().await, None);
    }
    let now = plane.read(THINGS).await;
    let mut watch =
        plane.watch(&format!("{THINGS}?watch=1&resourceVersion={}", revision(&now))).await;
    plane.delete(&format!("{THINGS}/a")).await;
    assert_eq!(watch.next_summary().await, "DELETED a");
}

#[tokio::test]
async fn invalid_watch_options_are_refused() {
    let plane = TestEnv::start().await;
    for (query, expected) in [
        ("sendInitialEvents=true", 422),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("resourceVersionMatch=Exact&sendInitialEvents=true", 422),
        ("resourceVersion=young", 500),
        ("timeoutSeconds=soon", 400),
        ("labelSelector=a+b", 400),
    ] {
        let (code, status) = plane.get(&format!("{CONFIG_MAPS}?watch=1&{query}")).await;
        assert_eq!(code, expected, "{query}: {status}");
    }
    assert_eq!(plane.get_as(&format!("{CONFIG_MAPS}?watch=1"), "application/yaml").await.code, 406);
}

#[tokio::test]
async fn a_watched_table_has_its_columns_once() {
    let plane = TestEnv::start().await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let client = plane.with_header("accept", TABLE);
    let mut watch = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let first = watch.expect("ADDED").await;
    assert_eq!((&first["kind"], &first["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    assert_eq!(first["columnDefinitions"][0]["name"], "Name");
    plane.create(CONFIG_MAPS, &config_map("b", &json!({}))).await;
    let second = watch.expect("ADDED").await;
    assert_eq!(second["rows"][0]["cells"][0], "b");
    assert_eq!(second["columnDefinitions"], Value::Null);
}
