//! May they: members of `system:masters` may do everything, everybody else may look at health,
//! version and discovery. Roles and bindings take the place of the second half when they come.

use crate::authentication::{MASTERS, User};
use crate::request::{RequestInfo, Target, Verb};
use machinery::{GroupResource, Status, Value, field_path::quote, json};

/// Refuses what the user may not do.
pub fn authorize(user: &User, info: &RequestInfo) -> Result<(), Status> {
    if user.is_in(MASTERS)
        || (info.verb.reads() && is_public(user, info))
        || (info.verb == Verb::Create && is_about_oneself(user, info))
    {
        return Ok(());
    }
    Err(forbidden(user, info, ""))
}

/// The refusal of a request; the right that is missing begins with `prefix`.
pub fn forbidden(user: &User, info: &RequestInfo, prefix: &str) -> Status {
    match info.target.as_ref().filter(|it| !it.resource.is_empty()) {
        Some(target) => {
            let right = format!("{prefix}{}", info.verb.as_str());
            forbidden_resource(user, &right, target)
        }
        None => forbidden_path(user, info, prefix),
    }
}

/// Health and version are for everyone, discovery for those who have said who they are.
fn is_public(user: &User, info: &RequestInfo) -> bool {
    let first = info.path.split('/').find(|it| !it.is_empty()).unwrap_or_default();
    match first {
        "healthz" | "livez" | "readyz" | "version" => true,
        "api" | "apis" | "openapi" => {
            user.is_in("system:authenticated")
                && info.target.as_ref().is_none_or(|it| it.resource.is_empty())
        }
        _ => false,
    }
}

/// Whoever has said who they are may ask what that means.
fn is_about_oneself(user: &User, info: &RequestInfo) -> bool {
    let Some(target) = &info.target else { return false };
    user.is_in("system:authenticated")
        && SELF.iter().any(|(group, resources)| {
            target.group == *group && resources.contains(&target.resource.as_str())
        })
}

/// What everybody may ask about themselves.
const SELF: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
];

/// What everybody may look at.
const HEALTH: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// And those who have said who they are.
const DISCOVERY: [&str; 6] = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];

/// What a user may do, as the status of a `SelfSubjectRulesReview`.
pub fn rules(user: &User) -> Value {
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    if user.is_in(MASTERS) {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    if user.is_in("system:authenticated") {
        resources.extend(SELF.iter().map(
            |(group, names)| json!({"verbs": ["create"], "apiGroups": [group], "resources": names}),
        ));
        let mut all: Vec<&str> = DISCOVERY.iter().chain(&HEALTH).copied().collect();
        all.sort_unstable();
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": all}));
    }
    paths.push(json!({"verbs": ["get"], "nonResourceURLs": HEALTH}));
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

fn forbidden_resource(user: &User, right: &str, target: &Target) -> Status {
    let mut resource = target.resource.clone();
    if !target.subresource.is_empty() {
        resource = format!("{resource}/{}", target.subresource);
    }
    let place = if target.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quote(&target.namespace))
    };
    let why = format!(
        "User {} cannot {right} resource {} in API group {} {place}",
        quote(&user.name),
        quote(&resource),
        quote(&target.group),
    );
    Status::forbidden(&GroupResource::new(&target.group, &target.resource), &target.name, &why)
}

fn forbidden_path(user: &User, info: &RequestInfo, prefix: &str) -> Status {
    let verb = match info.verb {
        Verb::List => "get",
        verb => verb.as_str(),
    };
    let (name, path) = (quote(&user.name), quote(&info.path));
    let why = format!("User {name} cannot {prefix}{verb} path {path}");
    Status::forbidden(&GroupResource::default(), "", &why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Query;

    fn ask(user: &User, path: &str) -> Result<(), String> {
        let info = RequestInfo::parse(&http::Method::GET, path, &Query::default()).unwrap();
        authorize(user, &info).map_err(|it| it.message)
    }

    #[test]
    fn nobody_but_the_masters_reads_objects() {
        let alice = User::authenticated("alice", "", vec![]);
        assert_eq!(
            ask(&alice, "/api/v1/namespaces/default/pods").unwrap_err(),
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#
        );
        assert_eq!(
            ask(&alice, "/apis/apps/v1/deployments").unwrap_err(),
            r#"deployments.apps is forbidden: User "alice" cannot list resource "deployments" in API group "apps" at the cluster scope"#
        );
        let master = User::authenticated("root", "", vec![MASTERS.to_owned()]);
        assert!(ask(&master, "/api/v1/pods").is_ok());
    }

    #[test]
    fn health_is_for_everyone_and_discovery_for_those_who_are_known() {
        let alice = User::authenticated("alice", "", vec![]);
        assert!(ask(&User::anonymous(), "/readyz").is_ok());
        assert!(ask(&alice, "/apis").is_ok());
        assert_eq!(
            ask(&User::anonymous(), "/apis").unwrap_err(),
            r#"forbidden: User "system:anonymous" cannot get path "/apis""#
        );
        assert!(ask(&alice, "/metrics").is_err());
    }
}
