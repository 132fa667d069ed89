//! Decides what a user may do.
//!
//! The server asks one [`Authorizers`], which asks its members in turn: the first that allows or
//! denies decides, and what nobody has an opinion on is refused. [`DefaultRules`] is always the
//! first member: `system:masters` may do everything, everybody may read health and version, and
//! authenticated users may read discovery and ask about themselves.

pub mod abac;

use crate::auth::authentication::{MASTERS, User};
use crate::request::{RequestInfo, ResourcePath, Verb};
use machinery::{GroupResource, Status, Value, field_path::quote, json};
use std::fmt;
use std::sync::Arc;

/// What a user wants to do, as Kubernetes' authorizers see it.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The user, after impersonation.
    pub user: &'a User,
    /// `get`, `list`, `create`, …
    pub verb: Verb,
    /// The resource; None for any other path.
    pub target: Option<&'a ResourcePath>,
    /// The path, for requests that are not about a resource.
    pub path: &'a str,
}

impl<'a> Attributes<'a> {
    /// Those of a request.
    pub fn new(user: &'a User, info: &'a RequestInfo) -> Self {
        let target = info.target.as_ref().filter(|it| !it.resource.is_empty());
        Self { user, verb: info.verb, target, path: &info.path }
    }
}

/// The answer of an [`Authorizer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; nobody else is asked.
    Allow,
    /// The request is refused; nobody else is asked.
    Deny,
    /// Others decide.
    NoOpinion,
}

/// Decides what users may do. It answers from memory: it is asked for every request.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Whether the user may do it.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Adds what the user may do in a namespace, and outside of namespaces.
    fn rules(&self, user: &User, namespace: &str, rules: &mut Rules);
}

/// What a user may do, in the form of a `SelfSubjectRulesReview`.
#[derive(Debug, Default)]
pub struct Rules {
    /// About resources.
    pub resources: Vec<Value>,
    /// About other paths.
    pub paths: Vec<Value>,
}

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Authorizers(Arc<[Arc<dyn Authorizer>]>);

impl Authorizers {
    /// The default rules, and others after them.
    pub fn new(others: &[Arc<dyn Authorizer>]) -> Self {
        let first: Arc<dyn Authorizer> = Arc::new(DefaultRules);
        Self(std::iter::once(&first).chain(others).map(Arc::clone).collect())
    }

    /// Whether the user may do it.
    pub fn allow(&self, attributes: &Attributes<'_>) -> bool {
        let decisions = self.0.iter().map(|it| it.authorize(attributes));
        decisions.into_iter().find(|it| *it != Decision::NoOpinion) == Some(Decision::Allow)
    }

    /// Refuses what the user may not do.
    pub fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        if self.allow(&Attributes::new(user, info)) {
            return Ok(());
        }
        Err(forbidden(user, info, ""))
    }

    /// What a user may do, as the status of a `SelfSubjectRulesReview`.
    pub fn rules(&self, user: &User, namespace: &str) -> Value {
        let mut rules = Rules::default();
        self.0.iter().for_each(|it| it.rules(user, namespace, &mut rules));
        let Rules { resources, paths } = rules;
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}

/// What is allowed whatever else is configured.
#[derive(Debug)]
pub struct DefaultRules;

impl Authorizer for DefaultRules {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let user = attributes.user;
        if user.is_in(MASTERS)
            || (attributes.verb.reads() && is_public(attributes))
            || (attributes.verb == Verb::Create && is_about_oneself(attributes))
        {
            return Decision::Allow;
        }
        Decision::NoOpinion
    }

    fn rules(&self, user: &User, _: &str, Rules { resources, paths }: &mut Rules) {
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
    }
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

/// Health and version are for everyone, discovery is for authenticated users.
fn is_public(attributes: &Attributes<'_>) -> bool {
    let first = attributes.path.split('/').find(|it| !it.is_empty()).unwrap_or_default();
    match first {
        "healthz" | "livez" | "readyz" | "version" => true,
        "api" | "apis" | "openapi" => {
            attributes.user.is_in("system:authenticated") && attributes.target.is_none()
        }
        _ => false,
    }
}

/// Authenticated users may ask who they are and what they may do.
fn is_about_oneself(attributes: &Attributes<'_>) -> bool {
    let Some(target) = attributes.target else { return false };
    attributes.user.is_in("system:authenticated")
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

fn forbidden_resource(user: &User, right: &str, target: &ResourcePath) -> Status {
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
        Authorizers::new(&[]).authorize(user, &info).map_err(|it| it.message)
    }

    /// Denies secrets, and has no opinion on anything else.
    #[derive(Debug)]
    struct NoSecrets;

    impl Authorizer for NoSecrets {
        fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
            match attributes.target {
                Some(target) if target.resource == "secrets" => Decision::Deny,
                _ => Decision::NoOpinion,
            }
        }

        fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
    }

    #[test]
    fn the_first_authorizer_with_an_opinion_decides() {
        let text = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","namespace":"*","resource":"*"}}"#;
        let everything: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse(text).unwrap());
        let no_secrets: Arc<dyn Authorizer> = Arc::new(NoSecrets);
        let alice = User::authenticated("alice", "", vec![]);
        let may = |others: &[&Arc<dyn Authorizer>], path: &str| {
            let others: Vec<_> = others.iter().map(|it| Arc::clone(it)).collect();
            let info = RequestInfo::parse(&http::Method::GET, path, &Query::default()).unwrap();
            Authorizers::new(&others).authorize(&alice, &info).is_ok()
        };
        assert!(may(&[&no_secrets, &everything], "/api/v1/pods"));
        assert!(!may(&[&no_secrets, &everything], "/api/v1/secrets"));
        assert!(may(&[&everything, &no_secrets], "/api/v1/secrets"));
        assert!(!may(&[&no_secrets], "/api/v1/pods"));
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
