//! `/metrics`: families and labels of kube-apiserver that dashboards use.

use apiserver::auth::authentication::User;
use machinery::{Value, json};
use testenv::TestEnv;

/// A resource that the server itself does not use.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(name: &str, note: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"note": note}}})
}

/// The integer parts of the samples of a family that have all of the labels, written `name="value"`.
async fn values(plane: &TestEnv, family: &str, labels: &[&str]) -> Vec<usize> {
    let text = plane.get("/metrics").await.1;
    let samples = text.as_str().unwrap().lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, rest) = series.split_once('{').unwrap_or((series, ""));
        let matches = name == family && labels.iter().all(|it| rest.contains(it));
        matches.then(|| value.split('.').next().unwrap().parse().unwrap())
    });
    samples.collect()
}

#[tokio::test]
async fn stored_objects_are_counted_for_each_resource() {
    let plane = TestEnv::start().await;
    let count = async || {
        // A list waits until all earlier writes can be read.
        plane.read(SECRETS).await;
        let by_group = ["group=\"\"", "resource=\"secrets\""];
        let of_resource = values(&plane, "apiserver_resource_objects", &by_group).await;
        let stored = values(&plane, "apiserver_storage_objects", &["resource=\"secrets\""]).await;
        assert_eq!(of_resource, stored);
        of_resource[0]
    };
    let before = count().await;
    plane.create(SECRETS, &secret("a", "")).await;
    plane.create(SECRETS, &secret("b", "")).await;
    plane.delete(&format!("{SECRETS}/a")).await;
    assert_eq!(count().await - before, 1);
    let crds = ["resource=\"customresourcedefinitions.apiextensions.k8s.io\""];
    assert_eq!(values(&plane, "apiserver_storage_objects", &crds).await, [0]);
    let reviews = ["resource=\"tokenreviews.authentication.k8s.io\""];
    assert!(values(&plane, "apiserver_storage_objects", &reviews).await.is_empty());
}

#[tokio::test]
async fn open_watches_and_their_events_are_counted() {
    let plane = TestEnv::start().await;
    let open = async || {
        let labels = ["verb=\"WATCH\"", "resource=\"secrets\"", "scope=\"namespace\""];
        values(&plane, "apiserver_longrunning_requests", &labels).await
    };
    let events = async || {
        let labels = ["group=\"\"", "version=\"v1\"", "resource=\"secrets\""];
        values(&plane, "apiserver_watch_events_total", &labels).await
    };
    plane.create(SECRETS, &secret("a", "")).await;
    let mut watch =
        plane.watch(&format!("{SECRETS}?watch=1&fieldSelector=metadata.name%3Da")).await;
    watch.expect("ADDED").await;
    plane.merge(&format!("{SECRETS}/a"), &json!({"metadata": {"labels": {"k": "v"}}})).await;
    watch.expect("MODIFIED").await;
    let large = json!({"metadata": {"annotations": {"a": "x".repeat(100_000)}}});
    plane.merge(&format!("{SECRETS}/a"), &large).await;
    watch.expect("MODIFIED").await;
    assert_eq!((open().await, events().await), (vec![1], vec![3]));
    drop(watch);
    assert_eq!(open().await, [0]);
}

#[tokio::test]
async fn response_sizes_of_reads_are_counted() {
    let plane = TestEnv::start().await;
    plane.create(SECRETS, &secret("a", &"x".repeat(5000))).await;
    let object = plane.get_as(&format!("{SECRETS}/a"), "application/json").await.bytes.len();
    let list = plane.get_as(SECRETS, "application/json").await.bytes.len();
    let sum = async |verb: &str| {
        let labels = [verb, "resource=\"secrets\"", "scope=\"resource\""];
        let labels = if verb.contains("LIST") { &labels[..2] } else { &labels[..] };
        values(&plane, "apiserver_response_sizes_sum", labels).await
    };
    assert_eq!(sum("verb=\"GET\"").await, [object]);
    assert_eq!(sum("verb=\"LIST\"").await, [list]);
    assert!(sum("verb=\"POST\"").await.is_empty());
}

#[tokio::test]
async fn a_scrape_counts_itself_and_has_process_metrics() {
    let plane = TestEnv::start().await;
    let reads = values(&plane, "apiserver_current_inflight_requests", &["\"readOnly\""]).await;
    let writes = values(&plane, "apiserver_current_inflight_requests", &["\"mutating\""]).await;
    assert!(matches!(reads[..], [count] if count > 0), "{reads:?}");
    assert_eq!(writes, [0]);
    for family in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        let found = values(&plane, family, &[]).await;
        assert_eq!(found.len(), 1, "{family}");
    }
}

#[tokio::test]
async fn authentication_and_authorization_are_counted_by_result() {
    let plane = TestEnv::start().await;
    let counted = [
        ("authentication_attempts", r#"result="success""#),
        ("authentication_attempts", r#"result="error""#),
        ("authentication_duration_seconds_count", r#"result="error""#),
        ("authorization_attempts_total", r#"result="allowed""#),
        ("authorization_attempts_total", r#"result="no-opinion""#),
        ("authorization_duration_seconds_count", r#"result="no-opinion""#),
        ("authenticated_user_requests", r#"username="email_id""#),
        ("authenticated_user_requests", r#"username="kubelet""#),
    ];
    let counts = async || {
        let mut counts = Vec::new();
        for (family, label) in counted {
            counts.push(values(&plane, family, &[label]).await[0]);
        }
        counts
    };
    let before = counts().await;
    let user = |name: &str| plane.as_user(User::authenticated(name, "", Vec::new()));
    assert_eq!(plane.bearer("unknown").get("/version").await.0, 401);
    assert_eq!(user("a@example.com").get(SECRETS).await.0, 403);
    assert_eq!(user("kubelet").get(SECRETS).await.0, 403);
    let after = counts().await;
    let added: Vec<usize> = after.iter().zip(before).map(|(it, before)| it - before).collect();
    // The scrapes and the components of the plane are also counted.
    assert!(added[0] >= 10 && added[3] >= 8, "{added:?}");
    assert_eq!((&added[1..3], &added[4..]), (&[1, 1][..], &[2, 2, 1, 1][..]));
}
