//! Roles and bindings with rights that their writer does not have, by every way to write them.

use http::Method;

use super::{
    APPLY_PATCH, BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, PATCH_TYPES, ROLES, binding, code,
    grant, grant_everywhere, patch, plane, role,
};
use machinery::{Value, json};
use testenv::{Client, TestEnv};

/// The rights to write roles and bindings, without `escalate` and `bind`.
const WRITE: [&str; 4] = [
    "get,create,update,patch,delete roles",
    "get,create,update,patch,delete clusterroles",
    "get,create,update,patch,delete rolebindings",
    "get,create,update,patch,delete clusterrolebindings",
];

/// An object that alice tries to change, and one that she tries to create.
struct Target {
    collection: &'static str,
    existing: Value,
    new: Value,
    /// The field that she changes in the existing object, and its value.
    field: &'static str,
    value: Value,
}

impl Target {
    /// The existing object with the changed field.
    fn changed(&self) -> Value {
        let mut changed = self.existing.clone();
        changed[self.field] = self.value.clone();
        changed
    }

    /// The codes of all ways to write the objects, which end with `query`.
    async fn attempt(&self, client: &Client, query: &str) -> Vec<(String, u16)> {
        let path = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            format!("{}/{name}{query}", self.collection)
        };
        let (existing, new) = (path(&self.existing), path(&self.new));
        let collection = format!("{}{query}", self.collection);
        let mut codes = vec![
            ("POST", client.post(&collection, &self.new).await.0),
            ("PUT that creates", client.put(&new, &self.new).await.0),
            ("PUT", client.put(&existing, &self.changed()).await.0),
        ];
        let separator = if query.is_empty() { '?' } else { '&' };
        let apply = format!("{new}{separator}fieldManager=attack");
        codes.push(("apply that creates", client.patch(&apply, APPLY_PATCH, &self.new).await.0));
        for patch_type in PATCH_TYPES {
            let pointer = format!("/{}", self.field);
            let (base, value) = (&self.existing, &self.value);
            let patched = patch(client, &existing, patch_type, base, &pointer, value).await;
            codes.push((patch_type, patched.0));
        }
        codes.into_iter().map(|(way, code)| (format!("{way} {}", self.collection), code)).collect()
    }
}

/// A role and a binding of each scope; to change or to create any of them is an escalation.
async fn targets(plane: &TestEnv) -> [Target; 4] {
    let strong = role("new", &["get secrets"]);
    let mut for_bob = binding("existing", "cluster-admin");
    for_bob["subjects"][0]["name"] = "bob".into();
    let typed = |kind: &str, object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = "rbac.authorization.k8s.io/v1".into();
        object["kind"] = kind.into();
        object
    };
    let admin = binding("new", "cluster-admin");
    let subjects = &admin["subjects"];
    let weak = role("existing", &["get configmaps"]);
    let mut targets = [
        ("Role", ROLES, &weak, &strong, "rules", &strong["rules"]),
        ("ClusterRole", CLUSTER_ROLES, &weak, &strong, "rules", &strong["rules"]),
        ("RoleBinding", BINDINGS, &for_bob, &admin, "subjects", subjects),
        ("ClusterRoleBinding", CLUSTER_BINDINGS, &for_bob, &admin, "subjects", subjects),
    ]
    .map(|(kind, collection, existing, new, field, value)| Target {
        collection,
        existing: typed(kind, existing),
        new: typed(kind, new),
        field,
        value: value.clone(),
    });
    for target in &mut targets {
        target.existing = plane.create(target.collection, &target.existing).await;
    }
    targets
}

#[tokio::test]
async fn no_way_to_write_a_role_or_a_binding_grants_what_its_writer_does_not_have() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "writer", &WRITE).await;
    let targets = targets(&plane).await;
    for target in &targets {
        for query in ["", "?dryRun=All", "?fieldValidation=Ignore"] {
            for (way, code) in target.attempt(&alice, query).await {
                assert_eq!(code, 403, "{way} {query}");
            }
        }
        let found = plane.read(&format!("{}/existing", target.collection)).await;
        assert_eq!(found, target.existing);
        assert_eq!(plane.get(&format!("{}/new", target.collection)).await.0, 404);
    }
    // The same requests are accepted from a user who has the rights to escalate and to bind.
    let all = ["escalate roles", "escalate clusterroles", "bind roles", "bind clusterroles"];
    grant_everywhere(&plane, "escalator", &all).await;
    for target in &targets {
        for (way, code) in target.attempt(&alice, "?dryRun=All").await {
            assert!(matches!(code, 200 | 201), "{way}: {code}");
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn rights_are_granted_only_where_and_for_what_their_writer_has_them() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "writer", &WRITE).await;
    grant(&plane, "own", &["get secrets a", "get,list configmaps", "get pods/log"]).await;
    for (rights, expected) in [
        (&["get secrets a"][..], 201),
        (&["get secrets a b"], 403),
        (&["get secrets"], 403),
        (&["get,list secrets a"], 403),
        (&["* secrets a"], 403),
        (&["get secrets/status a"], 403),
        (&["get *"], 403),
        (&["get */log"], 403),
        (&["get pods/log"], 201),
        (&["get pods"], 403),
        (&["get pods/*"], 403),
        (&["get,list configmaps"], 201),
        (&["get configmaps x", "list configmaps y"], 201),
        (&["get configmaps", "get secrets"], 403),
        (&["GET configmaps"], 403),
        (&["impersonate users"], 403),
        (&["escalate roles"], 403),
        (&["bind clusterroles"], 403),
        (&["create serviceaccounts/token"], 403),
    ] {
        let path = format!("{ROLES}?dryRun=All");
        let (code, status) = alice.post(&path, &role("r", rights)).await;
        assert_eq!(code, expected, "{rights:?}: {status}");
        // She has these rights in one namespace only.
        let path = format!("{CLUSTER_ROLES}?dryRun=All");
        assert_eq!(alice.post(&path, &role("r", rights)).await.0, 403, "{rights:?}");
    }
    for (url, expected) in [("/version", 201), ("/metrics", 403), ("/*", 403), ("*", 403)] {
        let rules = json!([{"verbs": ["get"], "nonResourceURLs": [url]}]);
        let role = json!({"metadata": {"name": "r"}, "rules": rules});
        let found = alice.post(&format!("{CLUSTER_ROLES}?dryRun=All"), &role).await;
        assert_eq!(found.0, expected, "{url}: {}", found.1);
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_right_to_bind_is_for_one_kind_of_role_in_one_scope() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "writer", &WRITE).await;
    grant(&plane, "binder", &["bind clusterroles reader"]).await;
    plane.create(CLUSTER_ROLES, &role("reader", &["get secrets"])).await;
    plane.create(ROLES, &role("reader", &["* *"])).await;
    let reader = binding("b", "reader");
    let mut namesake = reader.clone();
    namesake["roleRef"]["kind"] = "Role".into();
    let elsewhere = BINDINGS.replace("default", "kube-system");
    for (path, object, expected) in [
        (BINDINGS, &reader, 201),
        (BINDINGS, &namesake, 403),
        (BINDINGS, &binding("b", "cluster-admin"), 403),
        (BINDINGS, &binding("b", "reader-and-more"), 404),
        (CLUSTER_BINDINGS, &reader, 403),
        (&elsewhere, &reader, 403),
    ] {
        let (code, status) = alice.post(&format!("{path}?dryRun=All"), object).await;
        assert_eq!(code, expected, "{path} {object}: {status}");
    }
    // The role of a binding cannot be exchanged for a stronger one, not even by an administrator.
    plane.create(BINDINGS, &reader).await;
    let stronger = json!({"roleRef": binding("b", "cluster-admin")["roleRef"]});
    let path = format!("{BINDINGS}/b");
    let patched = plane.patch(&path, "application/merge-patch+json", &stronger).await;
    assert_eq!(patched.0, 422, "{}", patched.1);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_label_that_aggregates_a_role_into_another_needs_the_rights_of_that_role() {
    const LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "writer", &WRITE).await;
    grant_everywhere(&plane, "own", &["get widgets"]).await;
    let labeled = |name: &str, rights: &[&str]| {
        let mut role = role(name, rights);
        role["metadata"]["labels"] = json!({LABEL: "true"});
        role
    };
    assert_eq!(alice.post(CLUSTER_ROLES, &labeled("more", &["get secrets"])).await.0, 403);
    // Kubernetes allows this: every admin gets a right, but none that alice does not have.
    assert_eq!(alice.post(CLUSTER_ROLES, &labeled("same", &["get widgets"])).await.0, 201);
    let strong = plane.create(CLUSTER_ROLES, &role("strong", &["* *"])).await;
    let admin = plane.read(&format!("{CLUSTER_ROLES}/admin")).await;
    for patch_type in PATCH_TYPES {
        let labels = json!({LABEL: "true"});
        let path = format!("{CLUSTER_ROLES}/strong");
        let (pointer, base) = ("/metadata/labels", &strong);
        let patched = patch(&alice, &path, patch_type, base, pointer, &labels).await;
        assert_eq!(patched.0, 403, "{patch_type}: {}", patched.1);
        // Neither the selectors nor the label of the aggregated role can be changed.
        let path = format!("{CLUSTER_ROLES}/admin");
        let everything = json!({"clusterRoleSelectors": [{"matchLabels": {"own": "true"}}]});
        for (pointer, value) in [("/aggregationRule", everything), ("/metadata/labels", labels)] {
            let patched = patch(&alice, &path, patch_type, &admin, pointer, &value).await;
            assert_eq!(patched.0, 403, "{patch_type} {pointer}: {}", patched.1);
        }
    }
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_role_that_is_deleted_and_created_again_gives_nothing_to_its_creator() {
    let (plane, alice) = plane().await;
    grant_everywhere(&plane, "writer", &WRITE).await;
    // A binding may precede its role; who creates the role later must have its rights.
    let mut early = binding("early", "absent");
    early["roleRef"]["kind"] = "Role".into();
    plane.create(BINDINGS, &early).await;
    assert_eq!(alice.post(ROLES, &role("absent", &["get secrets"])).await.0, 403);
    plane.create(ROLES, &role("absent", &["get secrets"])).await;
    let secrets = "/api/v1/namespaces/default/secrets/none";
    assert_eq!(alice.get(secrets).await.0, 404);
    assert_eq!(code(&alice, Method::DELETE, &format!("{ROLES}/absent"), &Value::Null).await, 200);
    assert_eq!(alice.get(secrets).await.0, 403);
    assert_eq!(alice.post(ROLES, &role("absent", &["get secrets"])).await.0, 403);
    plane.stop().await.unwrap();
}
