//! Authorization of requests.
//!
//! The server has one [`Authorizers`], a union of [`Authorizer`]s that are called in turn: the first
//! that allows or denies decides, and a request on which none has an opinion is refused.
//! [`DefaultRules`] is always the first member.

pub mod abac;
pub mod always;
pub mod configuration;
mod decision;
mod default_rules;
pub mod fixed_roles;
pub(crate) mod masters;
pub mod webhook;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::auth::authentication::User;
use crate::request::{RequestInfo, ResourcePath, Selectors};
use machinery::field_path::quote;
use machinery::status::aggregate_messages;
use machinery::{GroupResource, Status, Value, json};

pub use decision::{Authorization, Decision};
pub use default_rules::DefaultRules;
use masters::Masters;

/// The attributes of a request that authorizers decide on, as in Kubernetes.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The user, after impersonation.
    pub user: &'a User,
    /// `get`, `list`, `create`, …; also verbs without a request of their own, such as `impersonate`.
    /// For a path that is not one of a resource, the HTTP method in lower case: `post`.
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
    /// Empty for collections, unless a field selector requires a name.
    pub name: &'a str,
    /// The selectors of a request for a collection.
    pub selectors: Option<&'a Selectors>,
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
            selectors: None,
        }
    }
}

impl<'a> Attributes<'a> {
    /// The attributes of a request.
    pub fn new(user: &'a User, info: &'a RequestInfo) -> Self {
        let path = info.resource.as_ref().filter(|it| !it.resource.is_empty());
        let resource = path.map(|path| ResourceAttributes {
            name: info.object_name(),
            selectors: info.selectors.as_deref(),
            ..ResourceAttributes::from(path)
        });
        let verb = if resource.is_some() { info.verb.as_str() } else { &info.method };
        Self { user, verb, resource, path: &info.path }
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

/// Decides whether users may perform requests. It is called for every request.
///
/// An authorizer that answers from memory returns [`Authorization::Ready`], which allocates nothing;
/// one that calls another server returns [`Authorization::Pending`]. CEL expressions are evaluated
/// synchronously: there, a pending answer is an error, which the expression can read
/// (`authorizer.….check('get').errored()`).
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// The name, which precedes the reasons of the authorizer in refusals: `abac`.
    fn name(&self) -> &str;

    /// Decides on a request.
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a>;

    /// Adds the rules that apply to the user in a namespace and to paths that are not of resources.
    /// An authorizer that cannot list its rules sets `incomplete`.
    fn rules(&self, user: &User, namespace: &str, rules: &mut Rules);
}

/// The rules that apply to a user, in the form of a `SelfSubjectRulesReview`.
#[derive(Debug, Default)]
pub struct Rules {
    /// The rules for resources.
    pub resources: Vec<Value>,
    /// The rules for other paths.
    pub paths: Vec<Value>,
    /// Whether the user may have more rights than these.
    pub incomplete: bool,
    /// The errors that made the rules incomplete.
    pub evaluation_errors: Vec<String>,
}

impl Rules {
    /// Adds all rights.
    fn add_all(&mut self) {
        self.resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        self.paths.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
}

/// An authorizer cannot decide without waiting, and the caller cannot wait.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authorizer does not answer immediately, and this expression cannot wait for it")]
pub struct NotReady;

/// See the [module documentation](self). Copies share the members, which can be replaced.
#[derive(Debug, Clone)]
pub struct Authorizers(Arc<ArcSwap<Members>>);

type Members = Vec<Arc<dyn Authorizer>>;

impl Authorizers {
    /// The union of the default rules and `others`, in this order.
    pub fn new(others: &[Arc<dyn Authorizer>]) -> Self {
        Self::beginning_with(&(Arc::new(DefaultRules) as _), others)
    }

    /// The union of `others`, of which one grants the rights of roles, after that of the group
    /// `system:masters`. The default rules come from roles.
    pub fn with_roles(others: &[Arc<dyn Authorizer>]) -> Self {
        Self::beginning_with(&(Arc::new(Masters) as _), others)
    }

    fn beginning_with(first: &Arc<dyn Authorizer>, others: &[Arc<dyn Authorizer>]) -> Self {
        let members = std::iter::once(first).chain(others).map(Arc::clone).collect::<Members>();
        Self(Arc::new(ArcSwap::from_pointee(members)))
    }

    /// Replaces all members but the first one. Requests whose authorization has begun are decided by
    /// the former members.
    pub(crate) fn replace(&self, others: &[Arc<dyn Authorizer>]) {
        let first = self.0.load().first().map(Arc::clone);
        let members = first.into_iter().chain(others.iter().map(Arc::clone));
        self.0.store(Arc::new(members.collect()));
    }

    /// The decision of the first member with an opinion. Upstream: the union authorizer; the reasons
    /// of those without an opinion, each after the name of its authorizer, and their errors are
    /// joined.
    pub async fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let members = self.0.load_full();
        let mut no_opinions = NoOpinions::default();
        for authorizer in members.iter() {
            let decision = match authorizer.authorize(attributes) {
                Authorization::Ready(decision) => decision,
                Authorization::Pending(decision) => decision.await,
            };
            if let Some(decided) = no_opinions.add(authorizer.name(), decision) {
                return decided;
            }
        }
        no_opinions.into_decision()
    }

    /// The decision, for callers that cannot wait. An authorizer that is not ready is an error even
    /// if a later one would allow the request, since it could have denied it.
    pub fn decide_immediately(&self, attributes: &Attributes<'_>) -> Result<Decision, NotReady> {
        let members = self.0.load();
        let mut no_opinions = NoOpinions::default();
        for authorizer in members.iter() {
            let Authorization::Ready(decision) = authorizer.authorize(attributes) else {
                return Err(NotReady);
            };
            if let Some(decided) = no_opinions.add(authorizer.name(), decision) {
                return Ok(decided);
            }
        }
        Ok(no_opinions.into_decision())
    }

    /// Returns a `Forbidden` error if the attributes are not allowed.
    ///
    /// Upstream: endpoints/filters/impersonation `checkAuthorization`
    pub async fn check(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let decision = self.decide(attributes).await;
        if decision.is_allowed() {
            return Ok(());
        }
        let texts = [decision.evaluation_error().unwrap_or_default(), decision.reason()];
        let why: Vec<&str> = texts.into_iter().filter(|it| !it.is_empty()).collect();
        Err(forbidden(attributes, &why.join(": ")))
    }

    /// The rules of a user, as the status of a `SelfSubjectRulesReview`.
    pub fn rules(&self, user: &User, namespace: &str) -> Value {
        let mut rules = Rules::default();
        self.0.load().iter().for_each(|it| it.rules(user, namespace, &mut rules));
        let Rules { resources, paths, incomplete, evaluation_errors } = rules;
        let mut status = json!({
            "resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete,
        });
        if !evaluation_errors.is_empty() {
            status["evaluationError"] = aggregate_messages(evaluation_errors).into();
        }
        status
    }
}

/// The reasons and the errors of authorizers without an opinion.
#[derive(Default)]
struct NoOpinions<'a> {
    /// The name of each authorizer, and its reason.
    reasons: Vec<(&'a str, Cow<'static, str>)>,
    errors: Vec<String>,
}

impl<'a> NoOpinions<'a> {
    /// The decision, if it is an opinion.
    fn add(&mut self, name: &'a str, decision: Decision) -> Option<Decision> {
        let Decision::NoOpinion { reason, evaluation_error } = decision else {
            return Some(decision);
        };
        if !reason.is_empty() {
            self.reasons.push((name, reason));
        }
        self.errors.extend(evaluation_error);
        None
    }

    fn into_decision(self) -> Decision {
        let evaluation_error = (!self.errors.is_empty()).then(|| aggregate_messages(self.errors));
        let reasons: Vec<String> =
            self.reasons.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        Decision::NoOpinion { reason: reasons.join("\n").into(), evaluation_error }
    }
}

/// Whether a pattern (`/metrics`, or `/logs/*` for all paths under it) matches a path, or covers another
/// pattern.
pub(crate) fn matches_path(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
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
mod tests;
