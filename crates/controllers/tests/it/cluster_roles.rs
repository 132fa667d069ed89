//! Aggregated cluster roles.

use crate::plane::Plane;
use apiserver::AuthorizerConfig;
use machinery::{Value, json};
use testenv::TestEnv;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn rule(resource: &str) -> Value {
    json!({"verbs": ["get"], "apiGroups": ["example.com"], "resources": [resource]})
}

fn labeled(name: &str, label: &str, rules: &[Value]) -> Value {
    json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules})
}

async fn until_rules(plane: &Plane, role: &str, rules: Value) {
    plane.until(&format!("{ROLES}/{role}"), |_, it| it["rules"] == rules).await;
}

#[tokio::test]
async fn an_aggregated_role_has_the_rules_of_the_roles_that_it_selects() {
    let plane = Plane::start(&["clusterrole-aggregation-controller"]).await;
    let aggregated = json!({"metadata": {"name": "all", "labels": {"up": "true"}},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"up": "true"}}]}});
    plane.create(ROLES, &labeled("b", "up", &[rule("y"), rule("x")])).await;
    plane.create(ROLES, &labeled("a", "up", &[rule("x")])).await;
    plane.create(ROLES, &labeled("c", "down", &[rule("z")])).await;
    plane.create(ROLES, &aggregated).await;
    until_rules(&plane, "all", json!([rule("x"), rule("y")])).await;
    plane.merge(&format!("{ROLES}/c"), &json!({"metadata": {"labels": {"up": "true"}}})).await;
    until_rules(&plane, "all", json!([rule("x"), rule("y"), rule("z")])).await;
    plane.delete(&format!("{ROLES}/b")).await;
    until_rules(&plane, "all", json!([rule("x"), rule("z")])).await;
    // What somebody else writes is replaced.
    plane.merge(&format!("{ROLES}/all"), &json!({"rules": [rule("secrets")]})).await;
    until_rules(&plane, "all", json!([rule("x"), rule("z")])).await;
    plane.stop().await;
}

#[tokio::test]
async fn an_admin_has_the_rights_of_an_editor_who_has_those_of_a_viewer() {
    let builder =
        TestEnv::builder().config(|config| config.authorizers.push(AuthorizerConfig::Rbac));
    let plane = Plane::start_with(builder, &["clusterrole-aggregation-controller"]).await;
    let has = |role: &Value, resource: &str, verb: &str| {
        let rules = role["rules"].as_array().into_iter().flatten();
        rules.into_iter().any(|rule| {
            let contains = |field: &str, value: &str| {
                rule[field].as_array().is_some_and(|it| it.iter().any(|it| it == value))
            };
            contains("resources", resource) && contains("verbs", verb)
        })
    };
    let view = plane.until(&format!("{ROLES}/view"), |_, it| has(it, "pods", "get")).await;
    assert!(!has(&view, "secrets", "get") && !has(&view, "pods", "create"));
    let is_editor = |_: u16, it: &Value| has(it, "pods", "create") && has(it, "pods/log", "get");
    let edit = plane.until(&format!("{ROLES}/edit"), is_editor).await;
    assert!(has(&edit, "secrets", "get") && !has(&edit, "rolebindings", "create"));
    let is_admin = |code: u16, it: &Value| is_editor(code, it) && has(it, "rolebindings", "create");
    plane.until(&format!("{ROLES}/admin"), is_admin).await;
    plane.stop().await;
}
