//! What each kind of user may do: a table over every route and verb, compared with `access_table.txt`.
//! The routes come from discovery, so that no new one is forgotten.
//!
//! `SAMPAN_UPDATE_GOLDEN=1 cargo test -p sampan-controllers --test it access_table` writes the file.

use std::fmt::Write;

use crate::plane::Plane;
use apiserver::AuthorizerConfig;
use machinery::{Value, json};
use testenv::TestEnv;

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/access_table.txt");

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// A kind of user: its name, its user name, its groups.
const USERS: [(&str, &str, &[&str]); 6] = [
    ("anonymous", "system:anonymous", &["system:unauthenticated"]),
    ("user", "user", &["system:authenticated"]),
    ("viewer", "viewer", &["system:authenticated"]),
    ("editor", "editor", &["system:authenticated"]),
    ("admin", "admin", &["system:authenticated"]),
    ("node", "system:node:a", &["system:authenticated", "system:nodes"]),
];

/// Those of users whose role is bound in the namespace `default`.
const BOUND: [(&str, &str); 3] = [("viewer", "view"), ("editor", "edit"), ("admin", "admin")];

async fn plane() -> Plane {
    let builder = TestEnv::builder().config(|config| {
        config.authorizers.extend([AuthorizerConfig::Node, AuthorizerConfig::Rbac]);
    });
    let plane = Plane::start_with(builder, &["clusterrole-aggregation-controller"]).await;
    for (user, role) in BOUND {
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        });
        plane.create(BINDINGS, &binding).await;
        let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
        plane.until(&path, |_, it| it["rules"].to_string().contains("pods/log")).await;
    }
    // The rights of `view` come to `edit` and from there to `admin`.
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
    plane
        .until(path, |_, it| it["rules"].to_string().contains("poddisruptionbudgets/status"))
        .await;
    plane
}

async fn is_allowed(plane: &Plane, user: &str, groups: &[&str], attributes: &Value) -> bool {
    let mut spec = attributes.clone();
    (spec["user"], spec["groups"]) = (user.into(), json!(groups));
    plane.create(REVIEWS, &json!({"spec": spec})).await["status"]["allowed"] == true
}

/// Appends a line: the route, and the verbs of each kind of user who may do any.
async fn append(plane: &Plane, table: &mut String, route: &str, attributes: &[(String, Value)]) {
    let mut line = String::new();
    for (kind, user, groups) in USERS {
        let mut allowed = Vec::new();
        for (verb, attributes) in attributes {
            if is_allowed(plane, user, groups, attributes).await {
                allowed.push(verb.as_str());
            }
        }
        if !allowed.is_empty() {
            write!(line, "\n    {kind}: {}", allowed.join(" ")).unwrap();
        }
    }
    let line = if line.is_empty() { "\n    nobody".to_owned() } else { line };
    writeln!(table, "{route}{line}").unwrap();
}

fn texts(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(Value::as_str).map(ToOwned::to_owned).collect()
}

async fn append_resources(plane: &Plane, table: &mut String, group: &str, version: &str) {
    let path = match group {
        "" => format!("/api/{version}"),
        _ => format!("/apis/{group}/{version}"),
    };
    for resource in plane.read(&path).await["resources"].as_array().unwrap() {
        let name = resource["name"].as_str().unwrap();
        let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
        let verbs = texts(&resource["verbs"]).into_iter();
        let attributes = verbs.map(|verb| {
            let mut target = json!({"verb": verb, "group": group, "version": version,
                "resource": plural, "subresource": subresource});
            if resource["namespaced"] == true {
                target["namespace"] = "default".into();
            }
            (verb, json!({"resourceAttributes": target}))
        });
        let attributes: Vec<(String, Value)> = attributes.collect();
        append(plane, table, &format!("{path}/{name}"), &attributes).await;
    }
}

#[tokio::test]
async fn every_route_and_verb_is_open_to_those_of_the_table() {
    let plane = plane().await;
    let mut table = String::new();
    for path in texts(&plane.read("/").await["paths"]) {
        let attributes = json!({"nonResourceAttributes": {"path": path, "verb": "get"}});
        append(&plane, &mut table, &path, &[("get".to_owned(), attributes)]).await;
    }
    append_resources(&plane, &mut table, "", "v1").await;
    for group in plane.read("/apis").await["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        for version in group["versions"].as_array().unwrap() {
            append_resources(&plane, &mut table, name, version["version"].as_str().unwrap()).await;
        }
    }
    plane.stop().await;
    if std::env::var_os("SAMPAN_UPDATE_GOLDEN").is_some() {
        std::fs::write(TABLE, &table).unwrap();
    }
    let golden = std::fs::read_to_string(TABLE).unwrap_or_default();
    let differences = golden.lines().zip(table.lines()).find(|(golden, found)| golden != found);
    assert!(golden == table, "the table has changed, first here: {differences:?}");
}
