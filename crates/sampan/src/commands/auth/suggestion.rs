//! [`suggest`]: the role that would give a right, and the command that binds it, for whoever may read
//! roles. A role with all rights is not suggested for one of them: a role of its own is.
//!
//! `sampan user add --role` replaces the role that a user has in the same place. It is suggested for a
//! user without one there, or if the new role has all rights of the previous one; otherwise the command
//! makes a binding beside the existing one.

use kube_client::Client;

use super::rules::{Action, allow, breadth};
use crate::commands::user::managed_roles;
use client::json_requests::get;
use machinery::Value;

const GROUP_PATH: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The roles for people in a namespace, from the weakest to the strongest.
const FOR_PEOPLE: [&str; 3] = ["view", "edit", "admin"];

/// The role with all rights.
const CLUSTER_ADMIN: &str = "cluster-admin";

/// The beginnings of the names of those roles of Kubernetes itself that people use. The others belong
/// to components, and have rights that nobody else needs together.
const SYSTEM_FOR_PEOPLE: [&str; 5] = [
    "system:basic-user",
    "system:certificates.k8s.io:",
    "system:discovery",
    "system:monitoring",
    "system:public-info-viewer",
];

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

/// What `sampan user add --role` would do with the role that the user has in the place.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Replacement {
    /// The user has none there.
    Nothing,
    /// It would be replaced by a role that has its rights.
    Weaker(String),
    /// Rights would be lost, or that cannot be known.
    LosesRights,
}

/// A role that has a right.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    kind: &'static str,
    name: String,
    /// How much the role allows, to compare roles.
    breadth: usize,
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
        candidates.extend(covering.filter_map(|it| {
            let name = it["metadata"]["name"].as_str()?.to_owned();
            Some(Candidate { kind, name, breadth: breadth(&it["rules"]) })
        }));
    }
    let chosen = candidates.into_iter().min_by(|a, b| rank(a).cmp(&rank(b)))?;
    let existing = managed_roles(client, refused.user, refused.namespace).await.ok();
    Some(advice(&chosen, refused, existing.as_deref()))
}

/// `existing` are the roles that the user has in the place; none if they cannot be read.
fn replacement(chosen: &str, existing: Option<&[String]>) -> Replacement {
    let strength = |name: &str| match FOR_PEOPLE.iter().position(|it| *it == name) {
        None if name == CLUSTER_ADMIN => Some(FOR_PEOPLE.len()),
        position => position,
    };
    match existing {
        Some([]) => Replacement::Nothing,
        Some([one]) if strength(one) < strength(chosen) && strength(one).is_some() => {
            Replacement::Weaker(one.clone())
        }
        _ => Replacement::LosesRights,
    }
}

fn advice(chosen: &Candidate, refused: &Refused<'_>, existing: Option<&[String]>) -> String {
    if is_too_strong(chosen)
        && let Some(creation) = creation(refused)
    {
        let new = Candidate { kind: "ClusterRole", name: "NAME".to_owned(), breadth: 0 };
        return format!(
            "only roles with many other rights have this one; to give it alone: {creation} && {}",
            command(&new, refused, &replacement("", existing))
        );
    }
    let Candidate { kind, name, .. } = chosen;
    let replacement = replacement(if *kind == "ClusterRole" { name } else { "" }, existing);
    let instead = match &replacement {
        Replacement::Weaker(previous) => format!(" instead of {previous:?}"),
        _ => String::new(),
    };
    let command = command(chosen, refused, &replacement);
    format!("{kind} {name:?} has this right; to give it{instead}: {command}")
}

/// Whether a role allows much more than what somebody asks for.
fn is_too_strong(role: &Candidate) -> bool {
    role.kind == "ClusterRole" && (role.name == CLUSTER_ADMIN || is_of_component(&role.name))
}

fn is_of_component(name: &str) -> bool {
    name.starts_with("system:") && !SYSTEM_FOR_PEOPLE.iter().any(|it| name.starts_with(it))
}

/// The command that makes a role with the right that was refused; none for all rights, which are
/// those of `cluster-admin`.
fn creation(refused: &Refused<'_>) -> Option<String> {
    let verb = refused.verb;
    let what = match refused.action {
        Action::Resource { resource, .. } if verb == "*" || resource == "*" => return None,
        Action::Resource { group, resource, name } => {
            let (plural, subresource) = match resource.split_once('/') {
                Some((plural, subresource)) => (plural, format!("/{subresource}")),
                None => (resource.as_str(), String::new()),
            };
            let dot = if group.is_empty() { "" } else { "." };
            let name = match name.as_str() {
                "" => String::new(),
                name => format!(" --resource-name={name}"),
            };
            format!("--resource={plural}{dot}{group}{subresource}{name}")
        }
        Action::Path(path) => format!("--non-resource-url={path}"),
    };
    Some(format!("kubectl create clusterrole NAME --verb={verb} {what}"))
}

/// The roles for people come first, then a role of the namespace, then those that somebody has made,
/// then those of Kubernetes itself, then those of its components, and `cluster-admin` last; of equals,
/// the role that allows the least.
fn rank(candidate: &Candidate) -> (usize, usize, &str) {
    let Candidate { kind, name, breadth } = candidate;
    let for_people = FOR_PEOPLE.iter().position(|it| it == name);
    let rank = match (*kind, for_people) {
        ("ClusterRole", Some(position)) => position,
        ("Role", _) => 3,
        _ if name == CLUSTER_ADMIN => 7,
        _ if is_of_component(name) => 6,
        _ if name.starts_with("system:") => 5,
        _ => 4,
    };
    (rank, *breadth, name)
}

/// The command that binds a role. Users of Kubernetes itself get no certificate.
fn command(role: &Candidate, refused: &Refused<'_>, replacement: &Replacement) -> String {
    let namespace = refused.namespace.map(|it| format!(" --namespace {it}")).unwrap_or_default();
    let is_person = !refused.user.starts_with("system:");
    if is_person && *replacement != Replacement::LosesRights {
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
        Candidate { kind, name: name.to_owned(), breadth: 1 }
    }

    #[test]
    fn the_weakest_role_for_people_comes_first_and_the_one_with_all_rights_last() {
        let mut all = [
            candidate("ClusterRole", "system:controller:job-controller"),
            candidate("ClusterRole", "system:monitoring"),
            candidate("ClusterRole", "cluster-admin"),
            Candidate { breadth: 2, ..candidate("ClusterRole", "all-of-the-shop") },
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
                "ClusterRole/all-of-the-shop",
                "ClusterRole/system:monitoring",
                "ClusterRole/system:controller:job-controller",
                "ClusterRole/cluster-admin",
            ]
        );
    }

    #[test]
    fn a_role_of_its_own_is_suggested_if_only_strong_ones_have_the_right() {
        let admin = candidate("ClusterRole", "cluster-admin");
        let check = |verb: &str, action: &Action, expect: Option<&str>| {
            let refused = Refused { user: "ann", verb, action, namespace: Some("shop") };
            assert_eq!(creation(&refused).as_deref(), expect);
            advice(&admin, &refused, Some(&[]))
        };
        let resource = |group: &str, resource: &str, name: &str| Action::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
        };
        let text = check(
            "get",
            &resource("example.com", "networks", ""),
            Some("kubectl create clusterrole NAME --verb=get --resource=networks.example.com"),
        );
        assert_eq!(
            text,
            "only roles with many other rights have this one; to give it alone: kubectl create \
             clusterrole NAME --verb=get --resource=networks.example.com && sampan user add ann --role NAME --namespace shop"
        );
        check(
            "update",
            &resource("apps", "deployments/scale", "web"),
            Some(
                "kubectl create clusterrole NAME --verb=update \
                 --resource=deployments.apps/scale --resource-name=web",
            ),
        );
        check(
            "get",
            &Action::Path("/debug/x".to_owned()),
            Some("kubectl create clusterrole NAME --verb=get --non-resource-url=/debug/x"),
        );
        let text = check("*", &resource("", "*", ""), None);
        assert!(text.starts_with("ClusterRole \"cluster-admin\" has this right"), "{text}");
    }

    #[test]
    fn the_command_fits_the_user_and_the_role() {
        let action = Action::Path("/metrics".to_owned());
        let check = |user: &str, role: &Candidate, namespace: Option<&str>| {
            let refused = Refused { user, verb: "get", action: &action, namespace };
            command(role, &refused, &Replacement::Nothing)
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

    #[test]
    fn a_role_that_would_lose_rights_is_bound_beside_the_existing_one() {
        let action = Action::Path("/metrics".to_owned());
        let refused = Refused { user: "jane", verb: "get", action: &action, namespace: Some("a") };
        let check = |chosen: &Candidate, existing: Option<&[&str]>, expect: &str| {
            let existing: Option<Vec<String>> =
                existing.map(|it| it.iter().map(|it| (*it).to_owned()).collect());
            let text = advice(chosen, &refused, existing.as_deref());
            assert!(text.ends_with(expect), "{existing:?}: {text}");
        };
        let edit = candidate("ClusterRole", "edit");
        let beside =
            ": kubectl create rolebinding NAME --clusterrole=edit --user=jane --namespace a";
        let add = ": sampan user add jane --role edit --namespace a";
        check(&edit, Some(&[]), &format!("to give it{add}"));
        check(&edit, Some(&["view"]), &format!("to give it instead of \"view\"{add}"));
        check(&edit, Some(&["deployer"]), beside);
        check(&edit, Some(&["Role/view"]), beside);
        check(&edit, Some(&["view", "deployer"]), beside);
        check(&edit, None, beside);
        let own = candidate("Role", "edit");
        let beside = ": kubectl create rolebinding NAME --role=edit --user=jane --namespace a";
        check(&own, Some(&["view"]), beside);
        let admin = candidate("ClusterRole", "cluster-admin");
        let created = "kubectl create clusterrole NAME --verb=get --non-resource-url=/metrics && \
                       kubectl create rolebinding NAME --clusterrole=NAME --user=jane --namespace a";
        check(&admin, Some(&["view"]), created);
    }
}
