//! [`suggest`]: the role that would give a right, and the command that binds it, for whoever may read
//! roles.

use kube_client::Client;

use super::rules::{Action, allow};
use client::json_requests::get;
use machinery::Value;

const GROUP_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The roles for people, from the weakest to the strongest.
const FOR_PEOPLE: [&str; 4] = ["view", "edit", "admin", "cluster-admin"];

/// What was refused.
pub(super) struct Refused<'a> {
    /// The user.
    pub user: &'a str,
    /// The verb.
    pub verb: &'a str,
    /// What it was to act on.
    pub action: &'a Action,
    /// The namespace; none for all of them, or for an action outside of namespaces.
    pub namespace: Option<&'a str>,
}

/// A role that has a right.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    kind: &'static str,
    name: String,
}

/// Names the weakest role that has the right, and how to bind it; none if no role has it, or if the
/// user of the client may not read roles.
pub(super) async fn suggest(client: &Client, refused: &Refused<'_>) -> Option<String> {
    let mut candidates = Vec::new();
    let cluster = format!("{GROUP_PATH}/clusterroles");
    let own = refused.namespace.map(|it| format!("{GROUP_PATH}/namespaces/{it}/roles"));
    for (kind, path) in [("ClusterRole", Some(cluster)), ("Role", own)] {
        let Some(path) = path else { continue };
        let Ok(Some(listed)) = get::<Value>(client, &path).await else { continue };
        let items = listed["items"].as_array().into_iter().flatten();
        let covering = items.filter(|it| allow(&it["rules"], refused.verb, refused.action));
        let names = covering.filter_map(|it| it["metadata"]["name"].as_str());
        candidates.extend(names.map(|it| Candidate { kind, name: it.to_owned() }));
    }
    let chosen = candidates.iter().min_by_key(|it| rank(it))?;
    Some(format!(
        "{} {:?} has this right; to give it: {}",
        chosen.kind,
        chosen.name,
        command(chosen, refused)
    ))
}

/// The roles for people come first, then a role of the namespace, then those that somebody has made,
/// and those of Kubernetes itself last; `cluster-admin` only if no other role of these has the right.
fn rank(candidate: &Candidate) -> (usize, &str) {
    let for_people = FOR_PEOPLE.iter().position(|it| *it == candidate.name);
    let rank = match (candidate.kind, for_people) {
        ("ClusterRole", Some(position)) if position < 3 => position,
        ("Role", _) => 3,
        (_, Some(_)) => 5,
        _ if candidate.name.starts_with("system:") => 6,
        _ => 4,
    };
    (rank, &candidate.name)
}

/// The command that binds a role. Users of Kubernetes itself get no certificate.
fn command(role: &Candidate, refused: &Refused<'_>) -> String {
    let namespace = refused.namespace.map(|it| format!(" --namespace {it}")).unwrap_or_default();
    if !refused.user.starts_with("system:") {
        let name = match role.kind {
            "Role" => format!("Role/{}", role.name),
            _ => role.name.clone(),
        };
        return format!("sampan user add {} --role {name}{namespace}", refused.user);
    }
    let kind = if refused.namespace.is_some() { "rolebinding" } else { "clusterrolebinding" };
    let subject = match refused.user.strip_prefix("system:serviceaccount:") {
        Some(account) => format!("--serviceaccount={account}"),
        None => format!("--user={}", refused.user),
    };
    let flag = role.kind.to_lowercase();
    format!("kubectl create {kind} NAME --{flag}={} {subject}{namespace}", role.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(kind: &'static str, name: &str) -> Candidate {
        Candidate { kind, name: name.to_owned() }
    }

    #[test]
    fn the_weakest_role_for_people_comes_first_and_those_of_kubernetes_last() {
        let mut all = [
            candidate("ClusterRole", "system:aggregate-to-view"),
            candidate("ClusterRole", "cluster-admin"),
            candidate("ClusterRole", "deployer"),
            candidate("Role", "view"),
            candidate("ClusterRole", "admin"),
            candidate("ClusterRole", "edit"),
        ];
        all.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let names = all.map(|it| format!("{}/{}", it.kind, it.name));
        assert_eq!(
            names,
            [
                "ClusterRole/edit",
                "ClusterRole/admin",
                "Role/view",
                "ClusterRole/deployer",
                "ClusterRole/cluster-admin",
                "ClusterRole/system:aggregate-to-view",
            ]
        );
    }

    #[test]
    fn the_command_fits_the_user_and_the_role() {
        let action = Action::Path("/metrics".to_owned());
        let check = |user: &str, role: &Candidate, namespace: Option<&str>| {
            command(role, &Refused { user, verb: "get", action: &action, namespace })
        };
        let view = candidate("ClusterRole", "view");
        assert_eq!(
            check("jane", &view, Some("a")),
            "sampan user add jane --role view --namespace a"
        );
        assert_eq!(check("jane", &view, None), "sampan user add jane --role view");
        assert_eq!(
            check("jane", &candidate("Role", "x"), Some("a")),
            "sampan user add jane --role Role/x --namespace a"
        );
        assert_eq!(
            check("system:serviceaccount:a:bot", &view, Some("a")),
            "kubectl create rolebinding NAME --clusterrole=view --serviceaccount=a:bot --namespace a"
        );
        assert_eq!(
            check("system:anonymous", &view, None),
            "kubectl create clusterrolebinding NAME --clusterrole=view --user=system:anonymous"
        );
    }
}
