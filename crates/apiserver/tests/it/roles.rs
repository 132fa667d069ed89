//! Roles and their bindings: what they grant, what nobody may grant, and those that every plane has.

use http::Method;

use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::User;
use apiserver::{Anonymous, AuthorizerConfig};
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH};
use testenv::{Client, TestEnv};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

async fn plane() -> (TestEnv, Client) {
    let plane = TestEnv::builder()
        .config(|config| config.authorizers.push(AuthorizerConfig::Rbac))
        .start()
        .await;
    let alice = plane.as_user(User::authenticated("alice", "", vec!["dev".to_owned()]));
    (plane, alice)
}

fn role(name: &str, rules: &Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": ["", "rbac.authorization.k8s.io"], "resources": resources})
}

fn binding(name: &str, role_kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    })
}

/// Grants alice these rules in the namespace `default`.
async fn grant(plane: &TestEnv, rules: &Value) {
    plane.create(ROLES, &role("granted", rules)).await;
    plane.create(BINDINGS, &binding("granted", "Role", "granted", "alice")).await;
}

/// The code and the message of a POST.
async fn posted(client: &Client, path: &str, object: &Value) -> (u16, String) {
    let response = client.send(Method::POST, path, JSON, object.to_string()).await;
    (response.code, response.value()["message"].as_str().unwrap_or_default().to_owned())
}

async fn code_of(client: &Client, path: &str) -> u16 {
    client.get(path).await.0
}

#[tokio::test]
async fn a_role_grants_its_rights_in_its_namespace_until_the_binding_is_deleted() {
    let (plane, alice) = plane().await;
    assert_eq!(code_of(&alice, CONFIG_MAPS).await, 403);
    grant(&plane, &json!([rule(&["list"], &["configmaps"])])).await;
    assert_eq!(code_of(&alice, CONFIG_MAPS).await, 200);
    assert_eq!(code_of(&alice, "/api/v1/namespaces/kube-system/configmaps").await, 403);
    assert_eq!(code_of(&alice, "/api/v1/configmaps").await, 403);
    assert_eq!(posted(&alice, CONFIG_MAPS, &config_map("a", &json!({}))).await.0, 403);
    plane.delete(&format!("{BINDINGS}/granted")).await;
    assert_eq!(code_of(&alice, CONFIG_MAPS).await, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_cluster_role_grants_its_rights_everywhere_or_in_the_namespace_of_a_role_binding() {
    let (plane, alice) = plane().await;
    plane.create(CLUSTER_ROLES, &role("reader", &json!([rule(&["list"], &["configmaps"])]))).await;
    plane.create(BINDINGS, &binding("b", "ClusterRole", "reader", "alice")).await;
    assert_eq!(code_of(&alice, CONFIG_MAPS).await, 200);
    assert_eq!(code_of(&alice, "/api/v1/configmaps").await, 403);
    plane.create(CLUSTER_BINDINGS, &binding("b", "ClusterRole", "reader", "alice")).await;
    assert_eq!(code_of(&alice, "/api/v1/configmaps").await, 200);
    let none = json!({"rules": []});
    plane.merge(&format!("{CLUSTER_ROLES}/reader"), &none).await;
    assert_eq!(code_of(&alice, CONFIG_MAPS).await, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_review_names_the_binding_that_allows_and_the_role_that_is_missing() {
    let (plane, _) = plane().await;
    grant(&plane, &json!([rule(&["get"], &["configmaps"])])).await;
    let review = |verb: &str| {
        json!({"spec": {"user": "alice", "resourceAttributes":
            {"verb": verb, "resource": "configmaps", "namespace": "default"}}})
    };
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let found = plane.create(reviews, &review("get")).await;
    let reason =
        r#"RBAC: allowed by RoleBinding "granted/default" of Role "granted" to User "alice""#;
    assert_eq!(found["status"], json!({"allowed": true, "reason": reason}));
    plane.delete(&format!("{ROLES}/granted")).await;
    let found = plane.create(reviews, &review("get")).await;
    let reason = r#"rbac: RBAC: role.rbac.authorization.k8s.io "granted" not found"#;
    assert_eq!(found["status"], json!({"allowed": false, "reason": reason}));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn nobody_writes_a_role_with_rights_that_he_does_not_have() {
    let (plane, alice) = plane().await;
    let own = rule(&["get", "list"], &["configmaps"]);
    let write = rule(&["create", "update", "patch", "get"], &["roles", "rolebindings"]);
    grant(&plane, &json!([own, write])).await;
    let same = rule(&["list"], &["configmaps"]);
    assert_eq!(posted(&alice, ROLES, &role("same", &json!([same]))).await.0, 201);
    let more = role("more", &json!([rule(&["get", "delete", "watch"], &["secrets"])]));
    let (code, message) = posted(&alice, ROLES, &more).await;
    let expected = concat!(
        r#"roles.rbac.authorization.k8s.io "more" is forbidden: user "alice" "#,
        r#"(groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#,
        "\n",
        r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "delete" "watch"]}"#,
        "\n",
        r#"{APIGroups:["rbac.authorization.k8s.io"], Resources:["secrets"], Verbs:["get" "delete" "watch"]}"#,
    );
    assert_eq!((code, message.as_str()), (403, expected));
    // By an update, a patch, and a dry run too.
    let path = format!("{ROLES}/same");
    let body = json!({"rules": more["rules"]}).to_string();
    let patched = alice.send(Method::PATCH, &path, MERGE_PATCH, body.clone()).await;
    assert_eq!(patched.code, 403);
    let dry = alice.send(Method::PATCH, &format!("{path}?dryRun=All"), MERGE_PATCH, body).await;
    assert_eq!(dry.code, 403);
    let mut put = alice.get(&path).await.1;
    put["rules"] = more["rules"].clone();
    assert_eq!(alice.send(Method::PUT, &path, JSON, put.to_string()).await.code, 403);
    let created = alice.send(Method::PUT, &format!("{ROLES}/more"), JSON, more.to_string()).await;
    assert_eq!(created.code, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_role_with_too_many_combinations_to_check_is_refused_at_once() {
    let (plane, alice) = plane().await;
    grant(&plane, &json!([rule(&["create"], &["roles"])])).await;
    let many: Vec<String> = (0..3000).map(|number| format!("r{number}")).collect();
    let rules = json!([{"verbs": many, "apiGroups": many, "resources": many}]);
    let (code, message) = posted(&alice, ROLES, &role("bomb", &rules)).await;
    assert_eq!(code, 403);
    assert!(message.contains("the rules have 27000000000 combinations"), "{message}");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_user_with_more_rules_than_can_be_checked_is_refused_in_their_namespace() {
    let (plane, alice) = plane().await;
    let cluster_wide = role("reader", &json!([rule(&["list"], &["pods"])]));
    plane.create(CLUSTER_ROLES, &cluster_wide).await;
    plane.create(CLUSTER_BINDINGS, &binding("reader", "ClusterRole", "reader", "alice")).await;
    // A long list of verbs costs little, many rules do not.
    let long = rule(&vec!["x"; 60_000], &["configmaps"]);
    for (name, rules) in [("a", vec![long]), ("b", vec![rule(&["x"], &["configmaps"]); 13_000])] {
        plane.create(ROLES, &role(name, &json!(rules))).await;
        plane.create(BINDINGS, &binding(name, "Role", name, "alice")).await;
        assert_eq!(code_of(&alice, CONFIG_MAPS).await, 403);
    }
    let (code, refused) = alice.get(CONFIG_MAPS).await;
    let reason = "RBAC: the user has more rules than can be checked in namespace \"default\"";
    assert_eq!(code, 403);
    assert!(refused["message"].as_str().unwrap().ends_with(reason), "{refused}");
    // Those of the cluster are checked first.
    assert_eq!(code_of(&alice, "/api/v1/namespaces/default/pods").await, 200);
    assert_eq!(code_of(&alice, "/api/v1/namespaces/kube-system/pods").await, 200);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_garbage_collectors_fields_of_a_role_can_be_changed_without_its_rights() {
    let (plane, alice) = plane().await;
    grant(&plane, &json!([rule(&["patch", "get"], &["roles", "rolebindings"])])).await;
    plane.create(ROLES, &role("strong", &json!([rule(&["*"], &["*"])]))).await;
    plane.create(BINDINGS, &binding("strong", "Role", "strong", "bob")).await;
    for path in [format!("{ROLES}/strong"), format!("{BINDINGS}/strong")] {
        let finalizers = json!({"metadata": {"finalizers": ["example.com/a"]}}).to_string();
        assert_eq!(alice.send(Method::PATCH, &path, MERGE_PATCH, finalizers).await.code, 200);
        let labels = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        assert_eq!(alice.send(Method::PATCH, &path, MERGE_PATCH, labels).await.code, 403);
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn nobody_binds_a_role_with_rights_that_he_does_not_have() {
    let (plane, alice) = plane().await;
    grant(&plane, &json!([rule(&["create"], &["rolebindings"])])).await;
    let admin = binding("b", "ClusterRole", "cluster-admin", "alice");
    let (code, message) = posted(&alice, BINDINGS, &admin).await;
    assert_eq!(code, 403);
    let begin = r#"rolebindings.rbac.authorization.k8s.io "b" is forbidden: user "alice" "#;
    assert!(message.starts_with(begin), "{message}");
    let absent = binding("b", "Role", "absent", "alice");
    let expected = r#"rolebindings.rbac.authorization.k8s.io "absent" not found"#;
    assert_eq!(posted(&alice, BINDINGS, &absent).await, (404, expected.to_owned()));
    // The right to bind that role.
    let bind = json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"], "resourceNames": ["view"]}]);
    plane.create(ROLES, &role("binder", &bind)).await;
    plane.create(BINDINGS, &binding("binder", "Role", "binder", "alice")).await;
    let view = binding("v", "ClusterRole", "view", "alice");
    assert_eq!(posted(&alice, BINDINGS, &view).await.0, 201);
    assert_eq!(posted(&alice, BINDINGS, &admin).await.0, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_right_to_escalate_allows_any_role_and_an_aggregation_needs_all_rights() {
    let (plane, alice) = plane().await;
    let aggregated = json!({"metadata": {"name": "a"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}});
    let create = role("creator", &json!([rule(&["create"], &["clusterroles"])]));
    plane.create(CLUSTER_ROLES, &create).await;
    plane.create(CLUSTER_BINDINGS, &binding("c", "ClusterRole", "creator", "alice")).await;
    let (code, message) = posted(&alice, CLUSTER_ROLES, &aggregated).await;
    let expected = concat!(
        r#"clusterroles.rbac.authorization.k8s.io "a" is forbidden: "#,
        "must have cluster-admin privileges to use the aggregationRule",
    );
    assert_eq!((code, message.as_str()), (403, expected));
    let escalate = json!({"rules": [rule(&["create", "escalate"], &["clusterroles"])]});
    plane.merge(&format!("{CLUSTER_ROLES}/creator"), &escalate).await;
    assert_eq!(posted(&alice, CLUSTER_ROLES, &aggregated).await.0, 201);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_plane_has_the_roles_of_kubernetes_and_restores_what_they_grant() {
    let directory = tempfile::tempdir().unwrap();
    let start = || async {
        let store = apiserver::StoreConfig::Embedded(directory.path().to_owned());
        TestEnv::builder()
            .config(|config| {
                config.authorizers.push(AuthorizerConfig::Rbac);
                config.store = store;
            })
            .start()
            .await
    };
    let plane = start().await;
    let role = plane.read(&format!("{CLUSTER_ROLES}/system:discovery")).await;
    assert_eq!(role["metadata"]["labels"], json!({"kubernetes.io/bootstrapping": "rbac-defaults"}));
    let rules = json!([rule(&["get"], &["pods"])]);
    plane.merge(&format!("{CLUSTER_ROLES}/system:discovery"), &json!({"rules": rules})).await;
    plane.delete(&format!("{CLUSTER_BINDINGS}/cluster-admin")).await;
    let no_subjects = json!({"subjects": null});
    plane.merge(&format!("{CLUSTER_BINDINGS}/system:basic-user"), &no_subjects).await;
    let protected = json!({"rules": [],
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}});
    plane.merge(&format!("{CLUSTER_ROLES}/system:node"), &protected).await;
    plane.stop().await.unwrap();

    let plane = start().await;
    let found = plane.read(&format!("{CLUSTER_ROLES}/system:discovery")).await;
    assert_eq!(found["rules"][0], rules[0], "a rule of a user stays");
    assert!(found["rules"].to_string().contains("/openapi"), "{found:#}");
    plane.read(&format!("{CLUSTER_BINDINGS}/cluster-admin")).await;
    let basic = plane.read(&format!("{CLUSTER_BINDINGS}/system:basic-user")).await;
    assert_eq!(basic["subjects"][0]["name"], "system:authenticated");
    let node = plane.read(&format!("{CLUSTER_ROLES}/system:node")).await;
    assert!(node["rules"].as_array().is_none_or(Vec::is_empty));
    let before = plane.read(RBAC_LIST).await["metadata"]["resourceVersion"].clone();
    plane.stop().await.unwrap();
    let plane = start().await;
    let items = plane.read(RBAC_LIST).await["items"].clone();
    let newest = items
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
    assert!(
        newest.max().unwrap() <= before.as_str().unwrap().parse().unwrap(),
        "nothing is rewritten"
    );
    plane.stop().await.unwrap();
}

const RBAC_LIST: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

#[tokio::test]
async fn what_every_user_may_do_comes_from_roles() {
    let (plane, alice) = plane().await;
    let anonymous = plane.unauthenticated();
    assert_eq!(code_of(&anonymous, "/version").await, 200);
    assert_eq!(code_of(&anonymous, "/apis").await, 403);
    assert_eq!(code_of(&alice, "/apis").await, 200);
    assert_eq!(code_of(&alice, &format!("{RBAC}/clusterroles")).await, 403);
    plane.delete(&format!("{CLUSTER_BINDINGS}/system:discovery")).await;
    assert_eq!(code_of(&alice, "/apis").await, 403);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_rights_of_masters_are_listed_once() {
    let (plane, _) = plane().await;
    let review = json!({"spec": {"namespace": "default"}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let status = plane.create(reviews, &review).await["status"].take();
    let count = |rules: &str, rule: Value| {
        status[rules].as_array().unwrap().iter().filter(|it| **it == rule).count()
    };
    let resources = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert_eq!(count("resourceRules", resources), 1);
    assert_eq!(count("nonResourceRules", json!({"verbs": ["*"], "nonResourceURLs": ["*"]})), 1);
}

#[tokio::test]
async fn a_refused_impersonation_names_the_verb_that_was_last_allowed() {
    let (plane, alice) = plane().await;
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
        "resourceNames": ["bob"]}]);
    plane.create(CLUSTER_ROLES, &role("impersonator", &rules)).await;
    let bound = binding("impersonator", "ClusterRole", "impersonator", "alice");
    plane.create(CLUSTER_BINDINGS, &bound).await;
    let get_as = async |user: &str| {
        let (code, status) = alice.with_header("impersonate-user", user).get("/version").await;
        (code, status["message"].as_str().unwrap_or_default().to_owned())
    };
    let (code, message) = get_as("carol").await;
    assert_eq!(code, 403);
    assert!(message.contains("cannot impersonate-on:user-info:get"), "{message}");
    assert_eq!(get_as("bob").await.0, 200);
    let refused = r#"users "carol" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(get_as("carol").await, (403, refused.to_owned()));
}

#[tokio::test]
async fn a_plane_can_refuse_requests_without_credentials() {
    let builder = TestEnv::builder().config(|config| config.anonymous = Anonymous::Refused);
    let plane = builder.start().await;
    assert_eq!(code_of(&plane.unauthenticated(), "/version").await, 401);
    plane.stop().await.unwrap();
}
