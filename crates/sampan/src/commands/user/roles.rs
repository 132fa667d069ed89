//! [`find`]: the role that a name means, and a suggestion if there is none.

use anyhow::{Result, anyhow, bail};
use kube_client::Client;

use crate::connection::explain;
use client::json_requests::get;
use machinery::{Value, json};

const GROUP_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A reference to a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    /// `ClusterRole` or `Role`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

impl Role {
    /// The reference in a binding.
    pub(super) fn to_reference(&self) -> Value {
        json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": self.kind, "name": self.name,
        })
    }

    /// The value of `--role` that means this role.
    pub(super) fn to_argument(&self) -> String {
        match self.kind.as_str() {
            "Role" => format!("Role/{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Reads the reference of a binding.
    pub(super) fn of_binding(binding: &Value) -> Option<Self> {
        let reference = &binding["roleRef"];
        let text = |field: &str| reference[field].as_str().map(str::to_owned);
        Some(Self { kind: text("kind")?, name: text("name")? })
    }
}

/// Finds a role: `NAME` is a cluster role, or else a role of the namespace; `ClusterRole/NAME` and
/// `Role/NAME` say which.
pub(super) async fn find(client: &Client, text: &str, namespace: Option<&str>) -> Result<Role> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) if kind.eq_ignore_ascii_case("clusterrole") => {
            (Some("ClusterRole"), name)
        }
        Some((kind, name)) if kind.eq_ignore_ascii_case("role") => (Some("Role"), name),
        Some((kind, _)) => bail!("{kind:?} is neither ClusterRole nor Role"),
        None => (None, text),
    };
    if kind == Some("Role") && namespace.is_none() {
        bail!("a Role gives rights in its namespace: name it with --namespace");
    }
    let mut known = Vec::new();
    for kind in ["ClusterRole", "Role"].into_iter().filter(|it| kind.is_none_or(|kind| kind == *it))
    {
        if kind == "Role" && namespace.is_none() {
            continue;
        }
        let names = names(client, kind, namespace).await?;
        if names.iter().any(|it| it == name) {
            return Ok(Role { kind: kind.to_owned(), name: name.to_owned() });
        }
        known.extend(names);
    }
    Err(unknown(kind, name, namespace, &known))
}

/// The names of all cluster roles, or of the roles in a namespace.
async fn names(client: &Client, kind: &str, namespace: Option<&str>) -> Result<Vec<String>> {
    let path = match namespace {
        Some(namespace) if kind == "Role" => format!("{GROUP_PATH}/namespaces/{namespace}/roles"),
        _ => format!("{GROUP_PATH}/clusterroles"),
    };
    let listed: Option<Value> = get(client, &path).await.map_err(explain)?;
    let items = listed.iter().filter_map(|it| it["items"].as_array()).flatten();
    Ok(items.filter_map(|it| it["metadata"]["name"].as_str()).map(str::to_owned).collect())
}

/// The error of a role that does not exist. `kind` is given if only one kind was looked for.
fn unknown(
    kind: Option<&str>,
    name: &str,
    namespace: Option<&str>,
    known: &[String],
) -> anyhow::Error {
    let place = namespace.map(|it| format!(" in namespace {it:?}")).unwrap_or_default();
    let absent = match (kind, namespace) {
        (Some("Role"), _) => format!("there is no Role {name:?}{place}"),
        (Some(_), _) => format!("there is no ClusterRole {name:?}"),
        (None, Some(_)) => format!("there is no ClusterRole {name:?} and no such Role{place}"),
        (None, None) => format!("there is no ClusterRole {name:?} (a Role needs --namespace)"),
    };
    let suggestion = match nearest(name, known) {
        Some(near) => format!("; did you mean {near:?}?"),
        None if kind == Some("Role") => String::new(),
        None => "; the roles for people are view, edit, admin and cluster-admin".to_owned(),
    };
    anyhow!("{absent}{suggestion}")
}

/// The name that is most similar to a word, if any is. Two letters may be wrong in a short name, a
/// third of them in a long one.
pub(super) fn nearest<'a>(word: &str, known: &'a [String]) -> Option<&'a str> {
    let with_distance = known.iter().map(|it| (strsim::damerau_levenshtein(word, it), it));
    let is_similar = |(distance, name): &(usize, &String)| {
        *distance <= (name.len() / 3).max(2) && *distance < name.len()
    };
    with_distance.filter(is_similar).min().map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_kind_that_was_looked_for() {
        let check = |kind, namespace, expect: &str| {
            assert_eq!(unknown(kind, "deployer", namespace, &[]).to_string(), expect);
        };
        let people = "; the roles for people are view, edit, admin and cluster-admin";
        check(Some("Role"), Some("shop"), "there is no Role \"deployer\" in namespace \"shop\"");
        check(
            Some("ClusterRole"),
            Some("shop"),
            &format!("there is no ClusterRole \"deployer\"{people}"),
        );
        check(
            None,
            Some("shop"),
            &format!(
                "there is no ClusterRole \"deployer\" and no such Role in namespace \"shop\"{people}"
            ),
        );
    }

    #[test]
    fn the_nearest_role_is_suggested() {
        let known = ["admin", "cluster-admin", "edit", "view"].map(str::to_owned);
        assert_eq!(nearest("veiw", &known), Some("view"));
        assert_eq!(nearest("views", &known), Some("view"));
        assert_eq!(nearest("clusteradmin", &known), Some("cluster-admin"));
        assert_eq!(nearest("payments", &known), None);
        assert_eq!(nearest("x", &["y".to_owned()]), None);
    }
}
