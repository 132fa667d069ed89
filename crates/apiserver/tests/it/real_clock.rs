//! Timers on the system clock: watches, tokens and requests. The other tests move a manual clock,
//! which cannot show that a sleep of the system clock ends.

use std::time::Duration;

use crate::objects::{CONFIG_MAPS, config_map};
use crate::slow_disk::{self, post_and_disconnect};
use keel::Clock;
use machinery::json;
use testenv::TestEnv;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A limit above the time of the slowest machine.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn start() -> TestEnv {
    TestEnv::builder().system_clock().start().await
}

#[tokio::test]
async fn an_idle_watch_ends_at_its_timeout() {
    let plane = start().await;
    let begun = plane.clock().instant();
    let mut watch = plane.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    let ended = tokio::time::timeout(TIMEOUT, watch.next()).await;
    assert_eq!(ended.expect("the watch ends"), None);
    assert!(plane.clock().elapsed_since(&begun) >= Duration::from_millis(950));
}

/// Thirteen seconds: the system clock reads the time again every ten seconds of a sleep.
#[tokio::test]
async fn an_idle_watch_of_more_than_ten_seconds_gets_a_bookmark_and_ends() {
    let plane = start().await;
    let path = format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=13");
    let mut watch = plane.watch(&path).await;
    watch.expect("BOOKMARK").await;
    let next = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("a bookmark comes");
    assert_eq!(next.map(|(kind, _)| kind).as_deref(), Some("BOOKMARK"));
    assert_eq!(tokio::time::timeout(TIMEOUT, watch.next()).await.expect("the watch ends"), None);
}

/// The shortest lifetime of a token is ten minutes, with a minute of leeway. The token is issued by a
/// plane whose clock is eleven minutes behind, and used on a plane with the current time and the same
/// key.
#[tokio::test]
async fn a_token_expires() {
    let directory = tempfile::tempdir().unwrap();
    let issued = Clock::system().now() - Duration::from_secs(657);
    let builder = || TestEnv::builder().data_dir(directory.path());
    let plane = builder().clock(Clock::manual(issued)).start().await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let request = json!({"spec": {"expirationSeconds": 600}});
    let answer = plane.create(&format!("{ACCOUNTS}/robot/token"), &request).await;
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    plane.stop().await.unwrap();
    let plane = builder().system_clock().start().await;
    let client = plane.bearer(&token);
    let (code, _) = client.get("/apis").await;
    let expires = issued + Duration::from_mins(11);
    assert!(code == 200 || plane.clock().now() >= expires, "{code}");
    plane.clock().sleep_until(expires + Duration::from_secs(1)).await;
    assert_eq!(client.get("/apis").await.0, 401);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_is_answered_at_its_deadline() {
    let plane = start().await;
    // Without a timeout the request waits three seconds for a future revision.
    let (code, status) =
        plane.get(&format!("{CONFIG_MAPS}?resourceVersion=1000000&timeout=300ms")).await;
    assert_eq!((code, &status["reason"]), (504, &json!("Timeout")), "{status}");
}

#[tokio::test]
async fn readyz_fails_two_seconds_after_a_write_began_to_hang() {
    let (plane, disk) = slow_disk::start(Clock::system()).await;
    let begun = plane.clock().instant();
    post_and_disconnect(&plane, &disk, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    plane.until("/readyz", |code, _| code == 500).await;
    assert!(plane.clock().elapsed_since(&begun) >= Duration::from_secs(2));
    disk.resume();
    plane.until("/readyz", |code, _| code == 200).await;
}
