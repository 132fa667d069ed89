//! Authorization of requests.
//!
//! The server has one [`Authorizers`], a union of [`Authorizer`]s that are called in turn: the first
//! that allows or denies decides, and a request on which none has an opinion is refused.
//! [`DefaultRules`] is always the first member: `system:masters` may do everything, all users may
//! read health and version, and authenticated users may read discovery and create self reviews.

pub mod abac;
pub(crate) mod masters;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::auth::authentication::User;
use crate::request::{RequestInfo, ResourcePath, Verb};
use machinery::field_path::quote;
use machinery::{GroupResource, Status, Value, json};

/// The attributes of a request that authorizers decide on, as in Kubernetes.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The user, after impersonation.
    pub user: &'a User,
    /// `get`, `list`, `create`, …; also verbs without a request of their own, such as `impersonate`.
    pub verb: &'a str,
    /// The resource; None for a path that is not one of a resource.
    pub resource: Option<ResourceAttributes<'a>>,
    /// The path of the request.
    pub path: &'a str,
}

/// The resource that [`Attributes`] are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceAttributes<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// `v1`, or `*`.
    pub version: &'a str,
    /// The plural, or `*`.
    pub resource: &'a str,
    /// `status`, or empty.
    pub subresource: &'a str,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
}

impl<'a> From<&'a ResourcePath> for ResourceAttributes<'a> {
    fn from(path: &'a ResourcePath) -> Self {
        Self {
            group: &path.group,
            version: &path.version,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: &path.namespace,
            name: &path.name,
        }
    }
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    pub fn new(user: &'a User, info: &'a RequestInfo) -> Self {
        let path = info.resource.as_ref().filter(|it| !it.resource.is_empty());
        let resource = path.map(ResourceAttributes::from);
        let verb = match info.verb {
            // A request for the path of a group version is not a list.
            Verb::List if resource.is_none() => Verb::Get,
            verb => verb,
        };
        Self { user, verb: verb.as_str(), resource, path: &info.path }
    }

    /// The attributes of a verb on a resource that is checked in addition to the request.
    pub fn of_resource(user: &'a User, verb: &'a str, resource: ResourceAttributes<'a>) -> Self {
        Self { user, verb, resource: Some(resource), path: "" }
    }

    /// Whether the verb is a read.
    pub fn is_read(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The decision of an [`Authorizer`], with a human-readable reason, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; no other authorizer is called.
    Allow(Cow<'static, str>),
    /// The request is refused; no other authorizer is called.
    Deny(Cow<'static, str>),
    /// The other authorizers decide.
    NoOpinion(Cow<'static, str>),
}

impl Decision {
    /// Whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// The human-readable reason.
    pub fn reason(&self) -> &str {
        let (Self::Allow(reason) | Self::Deny(reason) | Self::NoOpinion(reason)) = self;
        reason
    }
}

/// Decides whether users may perform requests. It answers from memory, since it is called for every
/// request.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Decides on a request.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision;

    /// Adds the rules that apply to the user in a namespace and to paths that are not of resources.
    fn rules(&self, user: &User, namespace: &str, rules: &mut Rules);
}

/// The rules that apply to a user, in the form of a `SelfSubjectRulesReview`.
#[derive(Debug, Default)]
pub struct Rules {
    /// The rules for resources.
    pub resources: Vec<Value>,
    /// The rules for other paths.
    pub paths: Vec<Value>,
}

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub struct Authorizers(Arc<[Arc<dyn Authorizer>]>);

impl Authorizers {
    /// The union of the default rules and `others`, in this order.
    pub fn new(others: &[Arc<dyn Authorizer>]) -> Self {
        let first: Arc<dyn Authorizer> = Arc::new(DefaultRules);
        Self(std::iter::once(&first).chain(others).map(Arc::clone).collect())
    }

    /// The decision of the first member with an opinion. Upstream: the union authorizer; the reasons of
    /// those without an opinion are joined.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in self.0.iter() {
            match authorizer.authorize(attributes) {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                decided => return decided,
            }
        }
        Decision::NoOpinion(reasons.join("\n").into())
    }

    /// Returns a `Forbidden` error if the user may not perform the request.
    pub fn authorize(&self, user: &User, info: &RequestInfo) -> Result<(), Status> {
        self.check(&Attributes::new(user, info))
    }

    /// Returns a `Forbidden` error if the attributes are not allowed.
    pub fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        match self.decide(attributes) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => {
                Err(forbidden(attributes, &reason))
            }
        }
    }

    /// The rules of a user, as the status of a `SelfSubjectRulesReview`.
    pub fn rules(&self, user: &User, namespace: &str) -> Value {
        let mut rules = Rules::default();
        self.0.iter().for_each(|it| it.rules(user, namespace, &mut rules));
        let Rules { resources, paths } = rules;
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}

/// The rules that apply in every configuration.
#[derive(Debug)]
pub struct DefaultRules;

impl Authorizer for DefaultRules {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let user = attributes.user;
        if masters::contains(user)
            || (attributes.is_read() && is_public(attributes))
            || (attributes.verb == Verb::Create.as_str() && is_self_review(attributes))
        {
            return Decision::Allow("".into());
        }
        Decision::NoOpinion("".into())
    }

    fn rules(&self, user: &User, _: &str, Rules { resources, paths }: &mut Rules) {
        if masters::contains(user) {
            resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        if user.is_in("system:authenticated") {
            resources.extend(SELF_REVIEWS.iter().map(
                |(group, names)| json!({"verbs": ["create"], "apiGroups": [group], "resources": names}),
            ));
            let mut all: Vec<&str> = DISCOVERY_PATHS.iter().chain(&PUBLIC_PATHS).copied().collect();
            all.sort_unstable();
            paths.push(json!({"verbs": ["get"], "nonResourceURLs": all}));
        }
        paths.push(json!({"verbs": ["get"], "nonResourceURLs": PUBLIC_PATHS}));
    }
}

/// The `Forbidden` error for the attributes.
///
/// Upstream: endpoints/handlers/responsewriters `ForbiddenStatusError`
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut status = match attributes.resource {
        Some(resource) => forbidden_resource(attributes, &resource),
        None => forbidden_path(attributes),
    };
    if !reason.is_empty() {
        status.message = format!("{}: {reason}", status.message);
    }
    status
}

/// All users may read health and version, and authenticated users may read discovery.
fn is_public(attributes: &Attributes<'_>) -> bool {
    let first = attributes.path.split('/').find(|it| !it.is_empty()).unwrap_or_default();
    match first {
        "healthz" | "livez" | "readyz" | "version" => true,
        "api" | "apis" | "openapi" => {
            attributes.user.is_in("system:authenticated") && attributes.resource.is_none()
        }
        _ => false,
    }
}

/// Authenticated users may create reviews about themselves.
fn is_self_review(attributes: &Attributes<'_>) -> bool {
    let Some(target) = attributes.resource else { return false };
    attributes.user.is_in("system:authenticated")
        && SELF_REVIEWS.iter().any(|(group, resources)| {
            target.group == *group && resources.contains(&target.resource)
        })
}

/// The reviews that authenticated users may create.
const SELF_REVIEWS: [(&str, &[&str]); 2] = [
    ("authentication.k8s.io", &["selfsubjectreviews"]),
    ("authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
];

/// The paths that all users may read.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// The paths that authenticated users may read.
const DISCOVERY_PATHS: [&str; 6] = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];

fn forbidden_resource(attributes: &Attributes<'_>, found: &ResourceAttributes<'_>) -> Status {
    let mut resource = found.resource.to_owned();
    if !found.subresource.is_empty() {
        resource = format!("{resource}/{}", found.subresource);
    }
    let scope = if found.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quote(found.namespace))
    };
    let why = format!(
        "User {} cannot {} resource {} in API group {} {scope}",
        quote(&attributes.user.name),
        attributes.verb,
        quote(&resource),
        quote(found.group),
    );
    Status::forbidden(&GroupResource::new(found.group, found.resource), found.name, &why)
}

fn forbidden_path(attributes: &Attributes<'_>) -> Status {
    let (name, path) = (quote(&attributes.user.name), quote(attributes.path));
    let why = format!("User {name} cannot {} path {path}", attributes.verb);
    Status::forbidden(&GroupResource::default(), "", &why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Query;

    fn authorize_get(user: &User, path: &str) -> Result<(), String> {
        let info = RequestInfo::parse(&http::Method::GET, path, &Query::default()).unwrap();
        Authorizers::new(&[]).authorize(user, &info).map_err(|it| it.message)
    }

    /// Denies secrets, and has no opinion on anything else.
    #[derive(Debug)]
    struct NoSecrets;

    impl Authorizer for NoSecrets {
        fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
            match attributes.resource {
                Some(it) if it.resource == "secrets" => Decision::Deny("secrets are secret".into()),
                _ => Decision::NoOpinion("".into()),
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
    fn only_masters_read_objects_by_default() {
        let alice = User::authenticated("alice", "", vec![]);
        assert_eq!(
            authorize_get(&alice, "/api/v1/namespaces/default/pods").unwrap_err(),
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#
        );
        assert_eq!(
            authorize_get(&alice, "/apis/apps/v1/deployments").unwrap_err(),
            r#"deployments.apps is forbidden: User "alice" cannot list resource "deployments" in API group "apps" at the cluster scope"#
        );
        let master = masters::member("root");
        assert!(authorize_get(&master, "/api/v1/pods").is_ok());
    }

    #[test]
    fn the_refusal_has_the_reasons_of_the_authorizers() {
        let policies: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse("").unwrap());
        let alice = User::authenticated("alice", "", vec![]);
        let info = RequestInfo::parse(&http::Method::GET, "/metrics", &Query::default()).unwrap();
        let refused = |others: &[Arc<dyn Authorizer>]| {
            Authorizers::new(others).authorize(&alice, &info).unwrap_err().message
        };
        assert_eq!(
            refused(&[policies]),
            r#"forbidden: User "alice" cannot get path "/metrics": No policy matched."#
        );
        assert_eq!(refused(&[]), r#"forbidden: User "alice" cannot get path "/metrics""#);
    }

    #[test]
    fn all_users_read_health_and_authenticated_users_read_discovery() {
        let alice = User::authenticated("alice", "", vec![]);
        assert!(authorize_get(&User::anonymous(), "/readyz").is_ok());
        assert!(authorize_get(&alice, "/apis").is_ok());
        assert_eq!(
            authorize_get(&User::anonymous(), "/apis").unwrap_err(),
            r#"forbidden: User "system:anonymous" cannot get path "/apis""#
        );
        assert!(authorize_get(&alice, "/metrics").is_err());
    }
}
