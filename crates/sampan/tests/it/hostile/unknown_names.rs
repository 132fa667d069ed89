//! Names in refused requests, which must not be retained.

use std::time::Duration;

use tokio::time::Instant;

use super::{AttackedPlane, COLLECTION};

/// A length below the limit of a request head.
const LONG: usize = 60_000;

#[test]
fn names_in_refused_requests_are_not_retained() {
    let mut attacked = AttackedPlane::start();
    let mut anonymous_client = attacked.anonymous_client();
    let before = attacked.client.send("GET", "/metrics", None).unwrap().1;
    let before = before.as_str().unwrap().len();
    let name = "x".repeat(LONG / 2);
    // Impersonation of a group without a user is refused first.
    let early = [("impersonate-group", "a")];
    for number in 0..3000 {
        let path = format!("/apis/{number}{name}/v1/{number}{name}");
        assert_eq!(anonymous_client.exchange("GET", &path, &early, b"").unwrap().code, 400);
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
            assert_ne!(anonymous_client.exchange("GET", &path, &early, b"").unwrap().code, 200);
            assert_ne!(attacked.client.exchange(&method, &path, &[], b"").unwrap().code, 200);
        }
    }
    let since = Instant::now();
    let (code, scrape) = attacked.client.send("GET", "/metrics", None).unwrap();
    assert!(since.elapsed() < Duration::from_secs(5), "it took {:?}", since.elapsed());
    let scrape = scrape.as_str().unwrap();
    assert_eq!(code, 200);
    let growth = scrape.len().saturating_sub(before);
    assert!(growth < 100_000, "a scrape of {before} bytes has grown by {growth}");
    for made_up in ["xxx", "pods9", "below9", "group9", "path9", "v9", "METHOD"] {
        assert!(!scrape.contains(made_up), "{made_up} is in {scrape}");
    }
    attacked.assert_healthy();
}

#[test]
fn metrics_name_served_resources() {
    let mut attacked = AttackedPlane::start();
    attacked.send_accepted(
        "POST",
        COLLECTION,
        &machinery::json!({"metadata": {"name": "counted"}}),
    );
    attacked.client.send("GET", COLLECTION, None).unwrap();
    let (_, scrape) = attacked.client.send("GET", "/metrics", None).unwrap();
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
    attacked.assert_healthy();
}
