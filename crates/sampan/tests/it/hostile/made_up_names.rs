//! Requests that are refused leave nothing behind, whatever names are in them.

use super::{COLLECTION, Siege};
use std::time::Duration;
use tokio::time::Instant;

/// Less than a server reads of a request's head.
const LONG: usize = 60_000;

#[test]
fn names_that_strangers_make_up_are_not_remembered() {
    let mut siege = Siege::begin();
    let mut stranger = siege.stranger();
    let name = "x".repeat(LONG / 2);
    // Asking to be in a group without a name is refused before anything else is looked at.
    let early = [("impersonate-group", "a")];
    for number in 0..3000 {
        let path = format!("/apis/{number}{name}/v1/{number}{name}");
        assert_eq!(stranger.exchange("GET", &path, &early, b"").unwrap().code, 400);
    }
    for number in 0..100 {
        for path in [
            format!("/api/v{number}/pods"),
            format!("/api/v1/pods{number}"),
            format!("/api/v1/namespaces/default/pods/a/below{number}"),
            format!("/openapi/v3/apis/group{number}/v1"),
            format!("/path{number}"),
        ] {
            let method = format!("METHOD{number}");
            assert_ne!(stranger.exchange("GET", &path, &early, b"").unwrap().code, 200);
            assert_ne!(siege.client.exchange(&method, &path, &[], b"").unwrap().code, 200);
        }
    }
    let since = Instant::now();
    let (code, scrape) = siege.client.send("GET", "/metrics", None).unwrap();
    assert!(since.elapsed() < Duration::from_secs(5), "it took {:?}", since.elapsed());
    let scrape = scrape.as_str().unwrap();
    assert_eq!(code, 200);
    assert!(scrape.len() < 200_000, "a scrape has {} bytes", scrape.len());
    for made_up in ["xxx", "pods9", "below9", "group9", "path9", "v9", "METHOD"] {
        assert!(!scrape.contains(made_up), "{made_up} is in {scrape}");
    }
    siege.survived();
}

#[test]
fn what_is_served_is_counted_under_its_own_name() {
    let mut siege = Siege::begin();
    siege.accepted("POST", COLLECTION, &machinery::json!({"metadata": {"name": "counted"}}));
    siege.client.send("GET", COLLECTION, None).unwrap();
    let (_, scrape) = siege.client.send("GET", "/metrics", None).unwrap();
    let scrape = scrape.as_str().unwrap().to_owned();
    let line = |verb: &str, scope: &str, code: u16| {
        let mut labels = [
            format!("code=\"{code}\""),
            format!("verb=\"{verb}\""),
            format!("scope=\"{scope}\""),
            "component=\"apiserver\"".to_owned(),
            "dry_run=\"\"".to_owned(),
            "group=\"\"".to_owned(),
            "resource=\"configmaps\"".to_owned(),
            "subresource=\"\"".to_owned(),
            "version=\"v1\"".to_owned(),
        ];
        labels.sort();
        format!("apiserver_request_total{{{}}} ", labels.join(","))
    };
    for line in [line("POST", "resource", 201), line("LIST", "namespace", 200)] {
        assert!(scrape.lines().any(|it| it.starts_with(&line)), "{line} is not in {scrape}");
    }
    siege.survived();
}
