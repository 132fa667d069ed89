//! Requests while large limit ranges and quotas exist, in the same or in another namespace.

use super::{TICKS, TestRequest, cpu_time, thread_cpu_time};
use crate::objects::{CONFIG_MAPS, config_map};
use machinery::{Map, Value, json};
use testenv::TestEnv;

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
