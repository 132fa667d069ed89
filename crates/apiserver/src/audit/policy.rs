//! [`Policy`]: which requests are audited, and at which level. The first rule that matches a request
//! decides; a request without a matching rule is not audited.

mod document;

use std::path::{Path, PathBuf};

use crate::auth::authentication::User;
use crate::auth::authorization::{Attributes, ResourceAttributes, matches_path};

/// How much of a request is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    None,
    /// Who did what, and the result, without objects.
    Metadata,
    /// The metadata and the object of the request.
    Request,
    /// The metadata and the objects of the request and of the response.
    RequestResponse,
}

impl Level {
    pub(super) const ALL: [Self; 4] =
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The spelling in policies and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// The point in the handling of a request at which an event is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The request is authenticated, and not handled yet.
    RequestReceived,
    /// The head of the response of a long-running request is sent.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The request caused a panic.
    Panic,
}

impl Stage {
    const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The spelling in policies and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// A set of stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stages(u8);

impl Stages {
    fn insert(&mut self, stage: Stage) {
        self.0 |= 1 << stage as u8;
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the stage is in the set.
    pub(crate) fn contains(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }
}

/// What the policy says about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestAuditConfig {
    /// The level of the events.
    pub level: Level,
    /// The stages without events.
    pub omit_stages: Stages,
    /// Whether objects are recorded without their managed fields.
    pub omit_managed_fields: bool,
}

/// The reason why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Name a file that can be read.
    #[error("failed to read file path {path:?}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the file.
    #[error("{reason}: from file {path}", path = .path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The error in its content.
        reason: String,
    },
}

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Stages,
    omit_managed_fields: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    level: Level,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
    /// The stages of the rule and those of the policy.
    omit_stages: Stages,
    omit_managed_fields: bool,
}

/// Resources of one group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct GroupResources {
    group: String,
    /// All resources if empty.
    resources: Vec<String>,
    /// All names if empty.
    resource_names: Vec<String>,
}

impl Policy {
    /// Reads a policy file in YAML or JSON.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = std::fs::read(path)
            .map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|reason| PolicyError::Invalid { path: path.to_owned(), reason })
    }

    /// Parses and validates a policy. Unknown fields are logged and ignored, as upstream does.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        document::parse(text)
    }

    /// What the policy says about a request. `attributes` has no user if the authentication failed.
    pub(crate) fn evaluate(&self, request: &AuditAttributes<'_>) -> RequestAuditConfig {
        match self.rules.iter().find(|it| it.matches(request)) {
            Some(rule) => RequestAuditConfig {
                level: rule.level,
                omit_stages: rule.omit_stages,
                omit_managed_fields: rule.omit_managed_fields,
            },
            None => RequestAuditConfig {
                level: Level::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

/// The attributes of a request that rules match.
pub(crate) struct AuditAttributes<'a> {
    /// The attributes of the authenticated user's request.
    pub attributes: Attributes<'a>,
    /// Whether the user is known; no rule with users or groups matches otherwise.
    pub is_authenticated: bool,
}

impl Rule {
    /// Upstream: audit/policy/checker.go `ruleMatches`.
    fn matches(&self, request: &AuditAttributes<'_>) -> bool {
        let AuditAttributes { attributes, is_authenticated } = request;
        let user = Some(attributes.user).filter(|_| *is_authenticated);
        let matches_user = |it: &User| contains(&self.users, &it.name);
        if !self.users.is_empty() && !user.is_some_and(matches_user) {
            return false;
        }
        let matches_group = |it: &User| it.groups.iter().any(|it| contains(&self.user_groups, it));
        if !self.user_groups.is_empty() && !user.is_some_and(matches_group) {
            return false;
        }
        if !self.verbs.is_empty() && !contains(&self.verbs, attributes.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return attributes.resource.as_ref().is_some_and(|it| self.matches_resource(it));
        }
        if !self.non_resource_urls.is_empty() {
            return attributes.resource.is_none()
                && self.non_resource_urls.iter().any(|it| matches_path(it, attributes.path));
        }
        true
    }

    fn matches_resource(&self, requested: &ResourceAttributes<'_>) -> bool {
        if !self.namespaces.is_empty() && !contains(&self.namespaces, requested.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|it| it.matches(requested))
    }
}

impl GroupResources {
    fn matches(&self, requested: &ResourceAttributes<'_>) -> bool {
        if self.group != requested.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        (self.resource_names.is_empty() || contains(&self.resource_names, requested.name))
            && self.resources.iter().any(|it| matches_name(it, requested))
    }
}

/// Whether `*`, `pods`, `pods/log`, `*/log` or `pods/*` matches a resource with its subresource.
fn matches_name(pattern: &str, requested: &ResourceAttributes<'_>) -> bool {
    let ResourceAttributes { resource, subresource, .. } = *requested;
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some(("*", name)) if !subresource.is_empty() && name == subresource => true,
        // Upstream: `pods/*` matches `pods` as well.
        Some((name, "*")) => name == resource,
        Some((name, of)) => !subresource.is_empty() && name == resource && of == subresource,
    }
}

fn contains(list: &[String], text: &str) -> bool {
    list.iter().any(|it| it == text)
}

#[cfg(test)]
mod tests;
