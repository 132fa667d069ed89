//! Requests while large limit ranges and quotas exist, in the same or in another namespace.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::time::Instant;

use super::{TICKS, TestRequest, cpu_time, thread_cpu_time};
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::{JSON, MERGE_PATCH};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Names of resources with a quantity each.
fn quantities(count: usize, prefix: &str) -> Value {
    let one = |n: usize| (format!("{prefix}{n}"), Value::from("1"));
    Value::Object((0..count).map(one).collect::<Map<String, Value>>())
}

#[tokio::test]
async fn limit_ranges_of_another_namespace_do_not_slow_down_a_pod() {
    let plane = TestEnv::start().await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    let ranges = "/api/v1/namespaces/other/limitranges";
    let pod = TestRequest::post(
        PODS,
        &json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    );
    cpu_time(&plane, 201, &pod).await;
    let before = cpu_time(&plane, 201, &pod).await;
    for n in 0..10 {
        let limit = json!({"type": "Container", "max": quantities(4000, "example.com/resource-")});
        let range = json!({"metadata": {"name": format!("r{n}")}, "spec": {"limits": [limit]}});
        plane.create(ranges, &range).await;
    }
    let mut measured = Vec::new();
    for n in 0..4 {
        let range = json!({"metadata": {"name": format!("s{n}")}, "spec": {"limits": []}});
        plane.create(ranges, &range).await;
        measured.push(cpu_time(&plane, 201, &pod).await);
    }
    let least = measured.iter().min().unwrap();
    assert!(*least <= before * 2 + TICKS, "{before:?} became {measured:?}");
}

#[tokio::test]
async fn large_quotas_are_not_parsed_for_each_write() {
    let plane = TestEnv::start().await;
    let map = TestRequest::post(CONFIG_MAPS, &config_map("a", &json!({})));
    cpu_time(&plane, 201, &map).await;
    let before = cpu_time(&plane, 201, &map).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    for n in 0..20 {
        let hard = quantities(2000, "requests.example.com/resource-");
        let quota = json!({"metadata": {"name": format!("q{n}")}, "spec": {"hard": hard}});
        plane.create(quotas, &quota).await;
    }
    for n in 0..20 {
        // Their status is written once; a dry run does not change their usage.
        while plane.get(&format!("{quotas}/q{n}")).await.1["status"]["hard"].is_null() {
            tokio::task::yield_now().await;
        }
    }
    let mut measured = Vec::new();
    for _ in 0..4 {
        measured.push(cpu_time(&plane, 201, &map).await);
    }
    let least = measured.iter().min().unwrap();
    assert!(*least <= before * 2 + TICKS, "{before:?} became {measured:?}");
}

#[tokio::test]
async fn changes_in_another_namespace_do_not_evaluate_large_quotas() {
    let plane = TestEnv::start().await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    let observed = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/configmaps": "1000"});
    plane.create(observed, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    // Each batch ends when the statuses of all quotas have been evaluated.
    let mut count = 0;
    let mut batch = async || {
        let before = thread_cpu_time();
        for _ in 0..5 {
            count += 1;
            plane.create(CONFIG_MAPS, &config_map(&format!("m{count}"), &json!({}))).await;
            let shown = Value::from(count.to_string());
            let is_shown =
                |_: u16, quota: &Value| quota["status"]["used"]["count/configmaps"] == shown;
            plane.until(&format!("{observed}/q"), is_shown).await;
        }
        thread_cpu_time().saturating_sub(before)
    };
    batch().await;
    let before = batch().await;
    let quotas = "/api/v1/namespaces/team/resourcequotas";
    for n in 0..10 {
        let hard = quantities(2000, "requests.example.com/resource-");
        let quota = json!({"metadata": {"name": format!("q{n}")}, "spec": {"hard": hard}});
        plane.create(quotas, &quota).await;
        let is_shown = |_: u16, quota: &Value| !quota["status"]["hard"].is_null();
        plane.until(&format!("{quotas}/q{n}"), is_shown).await;
    }
    let measured = [batch().await, batch().await, batch().await];
    let least = measured.iter().min().unwrap();
    assert!(*least <= before * 2 + TICKS, "{before:?} became {measured:?}");
}

/// The time that a request takes, and the longest time that another request takes meanwhile.
#[allow(clippy::disallowed_methods, reason = "the test awaits its own tasks")]
async fn longest_delay(plane: TestEnv, code: u16, ask: TestRequest) -> (Duration, Duration) {
    let plane = Arc::new(plane);
    let other = Arc::clone(&plane);
    let request = tokio::task::spawn(async move {
        let begun = Instant::now();
        let reply = other.send(ask.method, &ask.path, ask.content_type, ask.body).await;
        assert_eq!(reply.code, code);
        begun.elapsed()
    });
    // On the same worker as the request.
    let delay = tokio::task::spawn(async move {
        let mut longest = Duration::ZERO;
        while !request.is_finished() {
            let begun = Instant::now();
            assert_eq!(plane.get("/livez").await.0, 200);
            tokio::task::yield_now().await;
            longest = longest.max(begun.elapsed());
        }
        (request.await.unwrap(), longest)
    });
    delay.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_check_of_large_pods_does_not_delay_other_requests() {
    let plane = TestEnv::start().await;
    let env: Vec<Value> = (0..8000).map(|n| json!({"name": format!("n{n}")})).collect();
    let containers = json!([{"name": "c", "image": "i", "env": env}]);
    for n in 0..10 {
        let name = format!("p{n}");
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
        plane.create(PODS, &pod).await;
    }
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let body = json!({"metadata": {"labels": labels}}).to_string();
    let path = "/api/v1/namespaces/default".to_owned();
    let ask = TestRequest::new(Method::PATCH, path, MERGE_PATCH, body);
    let (total, delay) = longest_delay(plane, 200, ask).await;
    assert!(delay < total / 2, "{delay:?} of {total:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn large_disruption_budgets_do_not_delay_other_requests() {
    let plane = TestEnv::start().await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let values: Vec<String> = (0..20_000).map(|n| format!("v{n}")).collect();
    for n in 0..10 {
        let expressions = json!([{"key": "a", "operator": "In", "values": values}]);
        let spec = json!({"maxUnavailable": 1, "selector": {"matchExpressions": expressions}});
        plane.create(budgets, &json!({"metadata": {"name": format!("b{n}")}, "spec": spec})).await;
    }
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    plane.create(PODS, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    plane.merge(&format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}})).await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let path = format!("{PODS}/p/eviction");
    let ask = TestRequest::new(Method::POST, path, JSON, eviction.to_string());
    let (total, delay) = longest_delay(plane, 201, ask).await;
    assert!(delay < total / 2, "{delay:?} of {total:?}");
}
