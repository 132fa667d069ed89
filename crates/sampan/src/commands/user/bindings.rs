//! Bindings of users: which role a user has in a namespace, or in all of them.
//!
//! ```text
//! RoleBinding sampan:user:jane:view      labels: app.kubernetes.io/managed-by: sampan
//!                                        annotations: sampan.dev/user: jane
//! ```
//!
//! A user has one role in a namespace, and one in the cluster. Whoever may bind roles in a namespace can
//! make such bindings as well, so that they say nothing about a user but which rights it has. A binding that other subjects were
//! added to loses only the user.

use anyhow::{Result, bail};
use kube_client::Client;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::input::parse_name;
use super::roles::Role;
use crate::connection::explain;
use client::json_requests::{MERGE_PATCH, create, delete, get, has_code, none_if_missing, patch};
use machinery::{Value, json};

/// The label of everything that these commands make.
pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "sampan");
/// The selector of [`MANAGED_BY`] in a query.
const SELECTOR: &str = "app.kubernetes.io%2Fmanaged-by%3Dsampan";
/// The annotation with the user's name, which a label could not have.
pub(super) const USER: &str = "sampan.dev/user";

/// The number of attempts to change an object that others change at the same time.
pub(super) const ATTEMPTS: usize = 10;

const GROUP_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A binding of one user.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    /// The binding's name.
    pub name: String,
    /// The namespace of a `RoleBinding`; none for a `ClusterRoleBinding`.
    pub namespace: Option<String>,
    /// The role.
    pub role: Role,
    /// The user.
    pub user: String,
    /// The subjects besides the user.
    others: Vec<Value>,
    /// The version that was read.
    resource_version: String,
}

impl Binding {
    fn read(object: &Value, user: Option<&str>) -> Option<Self> {
        let metadata = &object["metadata"];
        let annotated =
            || metadata["annotations"][USER].as_str().filter(|it| parse_name(it).is_ok());
        let user = user.or_else(annotated)?;
        let is_user = |it: &&Value| it["kind"] == "User" && it["name"] == *user;
        let subjects = object["subjects"].as_array()?;
        if !subjects.iter().any(|it| is_user(&it)) {
            return None;
        }
        Some(Self {
            name: metadata["name"].as_str()?.to_owned(),
            namespace: metadata["namespace"].as_str().map(str::to_owned),
            role: Role::of_binding(object)?,
            user: user.to_owned(),
            others: subjects.iter().filter(|it| !is_user(it)).cloned().collect(),
            resource_version: metadata["resourceVersion"].as_str()?.to_owned(),
        })
    }

    /// What it is, for messages.
    pub(super) fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("RoleBinding {:?} in namespace {namespace:?}", self.name),
            None => format!("ClusterRoleBinding {:?}", self.name),
        }
    }

    fn path(&self) -> String {
        path_of(self.namespace.as_deref(), &self.name)
    }
}

/// The path of a binding. The name of a role, and so that of a binding, may have any character but `/`
/// and `%`.
fn path_of(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{}", collection(namespace), utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// The path of the bindings in a namespace, or in the cluster.
fn collection(namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{GROUP_PATH}/namespaces/{namespace}/rolebindings"),
        None => format!("{GROUP_PATH}/clusterrolebindings"),
    }
}

async fn list(client: &Client, query: &str) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for resource in ["clusterrolebindings", "rolebindings"] {
        let path = format!("{GROUP_PATH}/{resource}{query}");
        let listed: Option<Value> = get(client, &path).await.map_err(explain)?;
        if let Some(Value::Array(items)) = listed.map(|mut it| it["items"].take()) {
            all.extend(items);
        }
    }
    Ok(all)
}

/// All bindings that these commands have made.
pub(super) async fn managed(client: &Client) -> Result<Vec<Binding>> {
    let listed = list(client, &format!("?labelSelector={SELECTOR}")).await?;
    Ok(listed.iter().filter_map(|it| Binding::read(it, None)).collect())
}

/// The bindings that name a user, except those that these commands have made.
pub(super) async fn unmanaged(client: &Client, user: &str) -> Result<Vec<Binding>> {
    let listed = list(client, "").await?;
    let others = listed.iter().filter(|it| {
        it["metadata"]["labels"][MANAGED_BY.0] != MANAGED_BY.1
            || it["metadata"]["annotations"][USER] != *user
    });
    Ok(others.filter_map(|it| Binding::read(it, Some(user))).collect())
}

/// Gives a user a role in a namespace, or in the cluster. The binding exists afterwards in any case,
/// so that other roles of the user can be taken away then. Other subjects of the binding stay.
pub(super) async fn grant(
    client: &Client,
    user: &str,
    role: &Role,
    namespace: Option<&str>,
) -> Result<String> {
    let kind = if role.kind == "Role" { "role:" } else { "" };
    let name = format!("sampan:user:{user}:{kind}{}", role.name);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
            "annotations": {USER: user},
        },
        "roleRef": role.to_reference(),
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let path = path_of(namespace, &name);
    for _ in 0..ATTEMPTS {
        match create::<Value>(client, &collection(namespace), &binding).await {
            Err(error) if has_code(&error, 409) => {}
            created => {
                created.map_err(explain)?;
                return Ok(name);
            }
        }
        let found: Option<Value> = get(client, &path).await.map_err(explain)?;
        // Without one, it was deleted since then.
        let Some(found) = found else { continue };
        if Role::of_binding(&found).as_ref() != Some(role) {
            bail!("there is another binding {name:?}, which gives another role: delete it");
        }
        let change = addition(&binding, &found, user);
        match patch::<Value>(client, &path, MERGE_PATCH, &change).await {
            Err(error) if has_code(&error, 409) || has_code(&error, 404) => {}
            patched => {
                patched.map_err(explain)?;
                return Ok(name);
            }
        }
    }
    bail!("others change the binding {name:?} all the time: run the command again")
}

/// The patch that makes `found` a binding of the user as well, if it is still the same then.
fn addition(binding: &Value, found: &Value, user: &str) -> Value {
    let mut change = json!({"metadata": binding["metadata"].clone()});
    change["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
    let mut subjects = found["subjects"].as_array().cloned().unwrap_or_default();
    if !subjects.iter().any(|it| it["kind"] == "User" && it["name"] == *user) {
        subjects.extend(binding["subjects"].as_array().cloned().unwrap_or_default());
        change["subjects"] = Value::Array(subjects);
    }
    change
}

/// Takes the user out of a binding, and deletes the binding if nobody else is in it. A binding that
/// others have changed since it was read is read again.
pub(super) async fn revoke(client: &Client, binding: &Binding) -> Result<()> {
    let mut binding = binding.clone();
    let path = binding.path();
    for _ in 0..ATTEMPTS {
        let version = &binding.resource_version;
        let result = if binding.others.is_empty() {
            let options = json!({"preconditions": {"resourceVersion": version}});
            delete::<Value>(client, &path, &options).await
        } else {
            let change = json!({
                "metadata": {
                    "labels": {MANAGED_BY.0: null},
                    "annotations": {USER: null},
                    "resourceVersion": version,
                },
                "subjects": binding.others,
            });
            patch::<Value>(client, &path, MERGE_PATCH, &change).await
        };
        match result {
            Err(error) if has_code(&error, 409) => {}
            done => {
                none_if_missing(done).map_err(explain)?;
                return Ok(());
            }
        }
        let found: Option<Value> = get(client, &path).await.map_err(explain)?;
        let found = found.and_then(|it| Binding::read(&it, Some(&binding.user)));
        // Without one, somebody else has taken the user out of it.
        let Some(found) = found else { return Ok(()) };
        binding = found;
    }
    bail!("others change the {} all the time: run the command again", binding.describe())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testenv::TestEnv;

    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

    /// A plane in which jane has a role, and its binding as it was read then.
    async fn plane_with_jane() -> (TestEnv, Binding) {
        let env = TestEnv::start().await;
        let role = Role { kind: "ClusterRole".to_owned(), name: "view".to_owned() };
        grant(&env.kube(), "jane", &role, Some("default")).await.unwrap();
        let binding = managed(&env.kube()).await.unwrap().remove(0);
        (env, binding)
    }

    fn subject(name: &str) -> Value {
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
    }

    async fn set_subjects(env: &TestEnv, subjects: Value) {
        let path = format!("{BINDINGS}/sampan:user:jane:view");
        let change = json!({"subjects": subjects});
        patch::<Value>(&env.kube(), &path, MERGE_PATCH, &change).await.unwrap();
    }

    async fn subjects(env: &TestEnv) -> Value {
        let path = format!("{BINDINGS}/sampan:user:jane:view");
        let binding: Option<Value> = get(&env.kube(), &path).await.unwrap();
        binding.map(|mut it| it["subjects"].take()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_user_that_is_added_to_a_binding_again_leaves_its_other_subjects() {
        let (env, binding) = plane_with_jane().await;
        set_subjects(&env, json!([subject("bob")])).await;
        grant(&env.kube(), "jane", &binding.role, Some("default")).await.unwrap();
        assert_eq!(subjects(&env).await, json!([subject("bob"), subject("jane")]));
    }

    #[tokio::test]
    async fn a_subject_that_is_added_while_a_user_is_removed_stays() {
        let (env, binding) = plane_with_jane().await;
        set_subjects(&env, json!([subject("jane"), subject("bob")])).await;
        revoke(&env.kube(), &binding).await.unwrap();
        assert_eq!(subjects(&env).await, json!([subject("bob")]), "it is not deleted");

        let (env, _) = plane_with_jane().await;
        set_subjects(&env, json!([subject("jane"), subject("bob")])).await;
        let binding = managed(&env.kube()).await.unwrap().remove(0);
        set_subjects(&env, json!([subject("eve"), subject("jane"), subject("bob")])).await;
        revoke(&env.kube(), &binding).await.unwrap();
        assert_eq!(subjects(&env).await, json!([subject("eve"), subject("bob")]));
    }

    #[tokio::test]
    async fn a_binding_is_deleted_with_its_last_subject() {
        let (env, binding) = plane_with_jane().await;
        set_subjects(&env, json!([subject("jane")])).await;
        revoke(&env.kube(), &binding).await.unwrap();
        assert_eq!(subjects(&env).await, Value::Null);
        revoke(&env.kube(), &binding).await.unwrap();
    }
}
