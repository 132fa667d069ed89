//! Attribute-based access control: policies in a file, in kube-apiserver's format, one JSON object a
//! line.
//!
//! ```text
//! # Alice may do everything in one namespace, and all authenticated users may read pods.
//! {"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"team","resource":"*","apiGroup":"*"}}
//! {"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","namespace":"*","resource":"pods","readonly":true}}
//! ```
//!
//! Upstream: pkg/auth/authorizer/abac.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Attributes, Authorization, Authorizer, Decision, Rules, matches_path};
use crate::auth::authentication::{AUTHENTICATED, User};
use machinery::json;

const API_VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct PolicyFile(Vec<Policy>);

/// A policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Check the path.
    #[error("cannot read the policy file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Correct the line.
    #[error("cannot use the policy file {path}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: LineError,
    },
}

/// A line that is not a valid policy. Lines and columns are counted from one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Write the object on one line.
    #[error("line {line} ends before its JSON object does; each policy is one object on one line")]
    Unfinished {
        /// The line.
        line: usize,
    },
    /// Correct the line.
    #[error(
        "line {line} is not a policy, which is one JSON object on one line: {detail} at column {column}"
    )]
    Json {
        /// The line.
        line: usize,
        /// The column of the mistake.
        column: usize,
        /// The mistake.
        detail: String,
    },
    /// Add the two fields.
    #[error("line {line} has no apiVersion {API_VERSION} and kind Policy")]
    Kind {
        /// The line.
        line: usize,
    },
}

impl LineError {
    fn of_json(line: usize, error: &serde_json::Error) -> Self {
        if error.is_eof() {
            return Self::Unfinished { line };
        }
        // The text ends with a position, whose line is always 1, since each line is parsed alone.
        let text = error.to_string();
        let detail = text.rsplit_once(" at line ").map_or(text.as_str(), |(detail, _)| detail);
        Self::Json { line, column: error.column(), detail: detail.to_owned() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    spec: Policy,
}

/// An empty field matches only an empty value, and `*` matches every value. As a user or a group, `*`
/// matches all authenticated users.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

impl PolicyFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|source| Error::Line { path: path.to_owned(), source })
    }

    /// Reads the lines of a file. Empty lines and comments (`#`) are skipped.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut policies = Vec::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (index, text) in lines.filter(|(_, it)| !it.is_empty() && !it.starts_with('#')) {
            let line = index + 1;
            let document: Document =
                serde_json::from_str(text).map_err(|error| LineError::of_json(line, &error))?;
            if document.api_version != API_VERSION || document.kind != "Policy" {
                return Err(LineError::Kind { line });
            }
            policies.push(document.spec.normalized());
        }
        Ok(Self(policies))
    }
}

impl Authorizer for PolicyFile {
    fn name(&self) -> &'static str {
        "abac"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        if self.0.iter().any(|it| it.allows(attributes)) {
            return Decision::allow().into();
        }
        Decision::no_opinion("No policy matched.").into()
    }

    fn rules(&self, user: &User, namespace: &str, rules: &mut Rules) {
        let is_in_namespace = |it: &&Policy| is_match(&it.namespace, namespace);
        for policy in self.0.iter().filter(|it| it.applies_to(user)).filter(is_in_namespace) {
            let verbs: &[&str] = if policy.readonly { &["get", "list", "watch"] } else { &["*"] };
            if !policy.resource.is_empty() {
                rules.resources.push(json!({
                    "verbs": verbs, "apiGroups": [policy.api_group], "resources": [policy.resource],
                }));
            }
            if !policy.non_resource_path.is_empty() {
                let paths = [&policy.non_resource_path];
                rules.paths.push(json!({"verbs": verbs, "nonResourceURLs": paths}));
            }
        }
    }
}

impl Policy {
    /// In this version, `*` as user or group stands for all authenticated users.
    /// Upstream: pkg/apis/abac/v1beta1/conversion.go
    fn normalized(mut self) -> Self {
        if self.user == "*" || self.group == "*" {
            self.user.clear();
            AUTHENTICATED.clone_into(&mut self.group);
        }
        self
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !self.applies_to(attributes.user) || (self.readonly && !attributes.is_read()) {
            return false;
        }
        match attributes.resource {
            Some(target) => {
                is_match(&self.namespace, target.namespace)
                    && is_match(&self.resource, target.resource)
                    && is_match(&self.api_group, target.group)
            }
            None => matches_path(&self.non_resource_path, attributes.path),
        }
    }

    /// A policy without a user and a group applies to no user.
    fn applies_to(&self, user: &User) -> bool {
        let is_user = self.user.is_empty() || self.user == user.name;
        let is_group = self.group.is_empty() || user.is_in(&self.group);
        (!self.user.is_empty() || !self.group.is_empty()) && is_user && is_group
    }
}

fn is_match(pattern: &str, value: &str) -> bool {
    pattern == "*" || pattern == value
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::{Query, RequestInfo};

    fn policy(spec: &str) -> String {
        format!(r#"{{"apiVersion":"{API_VERSION}","kind":"Policy","spec":{spec}}}"#)
    }

    fn allows(spec: &str, user: &User, method: &Method, path: &str) -> bool {
        let policies = PolicyFile::parse(&policy(spec)).unwrap();
        let info = RequestInfo::parse(method, path, &Query::default()).unwrap();
        let attributes = Attributes::new(user, &info);
        let Authorization::Ready(decision) = policies.authorize(&attributes) else {
            panic!("the policies are in memory");
        };
        decision.is_allowed()
    }

    #[test]
    fn a_policy_applies_to_its_user_its_namespace_and_its_resources() {
        let spec = r#"{"user":"alice","namespace":"team","resource":"pods","apiGroup":""}"#;
        let [alice, bob] = ["alice", "bob"].map(|it| User::authenticated(it, "", vec![]));
        let pods = "/api/v1/namespaces/team/pods";
        assert!(allows(spec, &alice, &Method::POST, pods));
        assert!(!allows(spec, &bob, &Method::POST, pods));
        assert!(!allows(spec, &alice, &Method::POST, "/api/v1/namespaces/other/pods"));
        assert!(!allows(spec, &alice, &Method::POST, "/api/v1/namespaces/team/secrets"));
        assert!(!allows(spec, &alice, &Method::GET, "/api/v1/pods"));
        assert!(!allows(spec, &alice, &Method::GET, "/metrics"));
    }

    #[test]
    fn a_readonly_policy_of_a_group_allows_reads() {
        let spec =
            r#"{"group":"ops","readonly":true,"namespace":"*","resource":"*","apiGroup":"*"}"#;
        let (ops, other) = (
            User::authenticated("a", "", vec!["ops".to_owned()]),
            User::authenticated("a", "", vec!["dev".to_owned()]),
        );
        assert!(allows(spec, &ops, &Method::GET, "/apis/apps/v1/deployments"));
        assert!(!allows(spec, &ops, &Method::DELETE, "/apis/apps/v1/deployments"));
        assert!(!allows(spec, &other, &Method::GET, "/apis/apps/v1/deployments"));
    }

    #[test]
    fn a_path_is_matched_exactly_or_by_its_prefix() {
        let anonymous = User::anonymous();
        let debug_paths = r#"{"group":"system:unauthenticated","nonResourcePath":"/debug/*"}"#;
        assert!(allows(debug_paths, &anonymous, &Method::GET, "/debug/pprof"));
        assert!(!allows(debug_paths, &anonymous, &Method::GET, "/metrics"));
        assert!(!allows(r#"{"nonResourcePath":"*"}"#, &anonymous, &Method::GET, "/metrics"));
    }

    #[test]
    fn a_policy_for_all_users_does_not_apply_to_anonymous_users() {
        let alice = User::authenticated("alice", "", vec![]);
        for subject in [r#""user":"*""#, r#""group":"*""#, r#""user":"bob","group":"*""#] {
            let spec = format!(r#"{{{subject},"namespace":"*","resource":"*","apiGroup":"*"}}"#);
            assert!(allows(&spec, &alice, &Method::POST, "/api/v1/nodes"), "{subject}");
            assert!(!allows(&spec, &User::anonymous(), &Method::GET, "/api/v1/nodes"), "{subject}");
            let spec = format!(r#"{{{subject},"nonResourcePath":"*"}}"#);
            assert!(allows(&spec, &alice, &Method::GET, "/metrics"), "{subject}");
            assert!(!allows(&spec, &User::anonymous(), &Method::GET, "/metrics"), "{subject}");
        }
    }

    #[test]
    fn an_error_has_the_number_of_the_invalid_line() {
        let text = format!("# a comment\n\n{}\n{{}}", policy("{}"));
        assert_eq!(PolicyFile::parse(&text).unwrap_err(), LineError::Kind { line: 4 });
        let error = PolicyFile::parse(&policy(r#"{"usr":"alice"}"#)).unwrap_err().to_string();
        let begins =
            "line 1 is not a policy, which is one JSON object on one line: unknown field `usr`";
        assert!(error.starts_with(begins), "{error}");
        assert!(error.contains(" at column ") && error.matches("line 1").count() == 1, "{error}");
    }

    #[test]
    fn an_object_on_several_lines_is_refused_with_an_explanation() {
        let pretty = "{\n  \"kind\": \"Policy\"\n}";
        let error = PolicyFile::parse(pretty).unwrap_err();
        assert_eq!(error, LineError::Unfinished { line: 1 });
        assert!(error.to_string().contains("one object on one line"));
    }

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policies.jsonl");
        std::fs::write(&path, "{").unwrap();
        let error = PolicyFile::read(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot use the policy file {}", path.display()));
    }
}
