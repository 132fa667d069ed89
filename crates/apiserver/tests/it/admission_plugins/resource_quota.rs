//! `ResourceQuota`: concurrent requests never exceed a quota.

use tokio::task::JoinSet;

use super::{PODS, pod, pod_with_resources, refused};
use crate::objects::{CONFIG_MAPS, THINGS, any_schema, config_map, thing, thing_crd};
use machinery::{Value, json};
use testenv::TestEnv;

pub(super) const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

pub(super) async fn plane_with_quota(spec: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    plane.create(QUOTAS, &json!({"metadata": {"name": "q"}, "spec": spec})).await;
    plane
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_of_fifty_concurrent_creates_fit_into_the_quota() {
    let plane = plane_with_quota(&json!({"hard": {"count/configmaps": "10"}})).await;
    let mut creators = JoinSet::new();
    for index in 0..50 {
        let client = plane.clone();
        creators.spawn(async move {
            client.post(CONFIG_MAPS, &config_map(&format!("m{index}"), &json!({}))).await.0
        });
    }
    let codes = creators.join_all().await;
    assert_eq!(codes.iter().filter(|it| **it == 201).count(), 10, "{codes:?}");
    assert_eq!(codes.iter().filter(|it| **it == 403).count(), 40, "{codes:?}");
    let found = plane.read(CONFIG_MAPS).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 10);
}

#[tokio::test]
async fn a_refusal_reports_usage_and_a_deletion_frees_it() {
    let plane =
        plane_with_quota(&json!({"hard": {"configmaps": "2", "count/configmaps": "2"}})).await;
    for name in ["a", "b"] {
        plane.create(CONFIG_MAPS, &config_map(name, &json!({}))).await;
    }
    assert_eq!(
        refused(&plane, CONFIG_MAPS, &config_map("c", &json!({}))).await,
        "configmaps \"c\" is forbidden: exceeded quota: q, requested: configmaps=1,count/configmaps=1, used: configmaps=2,count/configmaps=2, limited: configmaps=2,count/configmaps=2"
    );
    plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    plane.create(CONFIG_MAPS, &config_map("c", &json!({}))).await;
    refused(&plane, CONFIG_MAPS, &config_map("d", &json!({}))).await;
}

#[tokio::test]
async fn refused_requests_and_dry_runs_use_no_quota() {
    let plane = plane_with_quota(&json!({"hard": {"count/configmaps": "1"}})).await;
    for _ in 0..5 {
        plane.create(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("a", &json!({}))).await;
        let wrong = json!({"metadata": {"name": "a"}, "data": {"!": "x"}});
        assert_eq!(plane.post(CONFIG_MAPS, &wrong).await.0, 422);
    }
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 403);
}

#[tokio::test]
async fn pods_use_quota_for_their_requests_until_they_complete() {
    let plane =
        plane_with_quota(&json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}})).await;
    assert_eq!(
        refused(&plane, PODS, &pod("a", &json!({}))).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"memory": "256Mi"}});
    plane.create(PODS, &pod_with_resources("a", &resources("600m"))).await;
    assert_eq!(
        refused(&plane, PODS, &pod_with_resources("b", &resources("500m"))).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    plane.create(PODS, &pod_with_resources("b", &resources("400m"))).await;
    // A completed pod uses no quota.
    let ended = json!({"status": {"phase": "Succeeded"}});
    plane.merge(&format!("{PODS}/a/status"), &ended).await;
    plane.create(PODS, &pod_with_resources("c", &resources("600m"))).await;
}

#[tokio::test]
async fn custom_resources_are_counted() {
    let plane = plane_with_quota(&json!({"hard": {"count/things.example.com": "1"}})).await;
    plane.install_crd(&thing_crd(&any_schema())).await;
    plane.create(THINGS, &thing("a", &json!({}))).await;
    assert_eq!(
        refused(&plane, THINGS, &thing("b", &json!({}))).await,
        "things.example.com \"b\" is forbidden: exceeded quota: q, requested: count/things.example.com=1, used: count/things.example.com=1, limited: count/things.example.com=1"
    );
}

#[tokio::test]
async fn the_status_shows_the_usage() {
    let plane = plane_with_quota(&json!({"hard": {"pods": "5", "requests.cpu": "2"}})).await;
    let path = format!("{QUOTAS}/q");
    let shows = |pods: &'static str, cpu: &'static str| {
        move |_: u16, quota: &Value| {
            quota["status"]["used"] == json!({"pods": pods, "requests.cpu": cpu})
        }
    };
    let quota = plane.until(&path, shows("0", "0")).await;
    assert_eq!(quota["status"]["hard"], json!({"pods": "5", "requests.cpu": "2"}));
    plane.create(PODS, &pod_with_resources("a", &json!({"requests": {"cpu": "500m"}}))).await;
    plane.until(&path, shows("1", "500m")).await;
    plane.delete_with(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await;
    plane.until(&path, shows("0", "0")).await;
    plane.merge(&path, &json!({"spec": {"hard": {"pods": "1", "requests.cpu": null}}})).await;
    plane.until(&path, |_, quota| quota["status"]["hard"] == json!({"pods": "1"})).await;
}

/// The number of quota statuses that were refused because of their size.
async fn refused_statuses(plane: &TestEnv) -> u64 {
    let metrics = plane.get_as("/metrics", "text/plain").await;
    let is_counted = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && [r#"code="413""#, r#"resource="resourcequotas""#, r#"subresource="status""#]
                .iter()
                .all(|label| line.contains(label))
    };
    let counts = metrics.text().lines().filter(is_counted);
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn a_status_over_the_size_limit_is_not_written_repeatedly() {
    const LARGE: usize = 2;
    let plane = TestEnv::start().await;
    for namespace in ["large", "observed"] {
        plane.create("/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    }
    let (maps, quotas) =
        ("/api/v1/namespaces/observed/configmaps", "/api/v1/namespaces/observed/resourcequotas");
    let observed =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1000"}}});
    plane.create(quotas, &observed).await;
    // Quotas are evaluated in the order of their keys: once this quota shows a count, those of the
    // namespace `large` have been evaluated.
    let shows = |count: usize| {
        move |_: u16, quota: &Value| {
            quota["status"]["used"]["count/configmaps"] == count.to_string().as_str()
        }
    };
    let path = format!("{quotas}/q");
    for n in 0..LARGE {
        let name = |it: usize| {
            (format!("requests.example.com/a-resource-with-a-long-name-{it:06}"), json!("1000"))
        };
        let hard: machinery::Map<String, Value> = (0..6500).map(name).collect();
        let quota = json!({"metadata": {"name": format!("q{n}")}, "spec": {"hard": hard}});
        plane.create("/api/v1/namespaces/large/resourcequotas", &quota).await;
    }
    plane.create(maps, &config_map("first", &json!({}))).await;
    plane.until(&path, shows(1)).await;
    for n in 0..5 {
        plane.create(maps, &config_map(&format!("m{n}"), &json!({}))).await;
        plane.until(&path, shows(n + 2)).await;
    }
    assert_eq!(refused_statuses(&plane).await, LARGE as u64);
    // The status of a changed quota is written again, and stored if it fits.
    // A merge patch adds to a map, so the old entries are removed first.
    let hard = json!({"spec": {"hard": null}});
    let small = "/api/v1/namespaces/large/resourcequotas/q0";
    plane.merge(small, &hard).await;
    plane.merge(small, &json!({"spec": {"hard": {"pods": "1"}}})).await;
    plane.until(small, |_, quota| quota["status"]["used"] == json!({"pods": "0"})).await;
}
