//! [`FlowSchema`]: which requests belong to a priority level, and to which flow of it.
//!
//! Upstream: util/flowcontrol/rule.go

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;

use crate::auth::authentication::{User, service_account};
use crate::request::{RequestInfo, ResourcePath};

/// The spec of a flow schema, as it is stored. Absent and null lists are empty.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FlowSchemaSpec {
    /// The priority level of the requests.
    pub priority_level_configuration: Reference,
    /// The order of the schemas: the lowest number is first.
    #[serde(default)]
    pub matching_precedence: i64,
    #[serde(default)]
    distinguisher_method: Option<DistinguisherMethod>,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

/// A reference to a priority level.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Reference {
    /// The name of the level.
    pub name: String,
}

/// How the requests of a schema are divided into flows.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "type")]
enum DistinguisherMethod {
    ByUser,
    ByNamespace,
}

/// A request matches if a subject matches and a rule for resources or for other paths.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    subjects: Vec<Subject>,
    #[serde(default)]
    resource_rules: Option<Vec<ResourceRule>>,
    #[serde(default)]
    non_resource_rules: Option<Vec<NonResourceRule>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind")]
enum Subject {
    User {
        user: Reference,
    },
    Group {
        group: Reference,
    },
    ServiceAccount {
        #[serde(rename = "serviceAccount")]
        account: ServiceAccount,
    },
}

#[derive(Debug, Clone, Deserialize)]
struct ServiceAccount {
    namespace: String,
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceRule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(default)]
    cluster_scope: bool,
    #[serde(default)]
    namespaces: Option<Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct NonResourceRule {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    urls: Vec<String>,
}

impl FlowSchemaSpec {
    /// Whether a request belongs to the schema.
    pub(super) fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        let path = info.resource.as_ref().filter(|it| !it.resource.is_empty());
        self.rules.iter().flatten().any(|rule| {
            rule.subjects.iter().any(|it| it.matches(user))
                && match path {
                    Some(path) => {
                        let verb = info.verb.as_str();
                        rule.resource_rules.iter().flatten().any(|it| it.matches(verb, path))
                    }
                    None => rule
                        .non_resource_rules
                        .iter()
                        .flatten()
                        .any(|it| it.matches(&info.method, &info.path)),
                }
        })
    }

    /// The hash of the flow of a request, which decides on its queues.
    pub(super) fn flow_hash(&self, name: &str, user: &User, info: &RequestInfo) -> u64 {
        let mut hasher = DefaultHasher::new();
        (name, self.distinguisher(&user.name, info)).hash(&mut hasher);
        hasher.finish()
    }

    /// What distinguishes the flow of a request from others of the schema.
    pub(super) fn distinguisher<'a>(&self, user: &'a str, info: &'a RequestInfo) -> &'a str {
        match self.distinguisher_method {
            None => "",
            Some(DistinguisherMethod::ByUser) => user,
            Some(DistinguisherMethod::ByNamespace) => {
                info.resource.as_ref().map_or("", |it| &it.namespace)
            }
        }
    }
}

impl Subject {
    fn matches(&self, requester: &User) -> bool {
        match self {
            Self::User { user } => user.name == "*" || user.name == requester.name,
            Self::Group { group } => group.name == "*" || requester.is_in(&group.name),
            Self::ServiceAccount { account } => service_account::parse_user(&requester.name)
                .is_some_and(|(namespace, name)| {
                    namespace == account.namespace && (account.name == "*" || account.name == name)
                }),
        }
    }
}

impl ResourceRule {
    fn matches(&self, verb: &str, path: &ResourcePath) -> bool {
        contains(&self.verbs, verb)
            && self.matches_resource(path)
            && contains(&self.api_groups, &path.group)
            && match &*path.namespace {
                "" => self.cluster_scope,
                namespace => self.namespaces.as_ref().is_some_and(|it| contains(it, namespace)),
            }
    }

    fn matches_resource(&self, path: &ResourcePath) -> bool {
        if path.subresource.is_empty() {
            return contains(&self.resources, &path.resource);
        }
        is_all(&self.resources)
            || self.resources.iter().any(|it| {
                it.split_once('/').is_some_and(|(resource, subresource)| {
                    resource == path.resource && subresource == path.subresource
                })
            })
    }
}

impl NonResourceRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        contains(&self.verbs, verb)
            && self.urls.iter().any(|url| {
                if url == "*" || url == path {
                    return true;
                }
                // Upstream: a URL without `*` matches the paths below it too.
                let prefix = url.strip_suffix('*').unwrap_or(url);
                let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
                path.strip_prefix(prefix).is_some_and(|it| it.starts_with('/'))
            })
    }
}

fn is_all(list: &[String]) -> bool {
    matches!(list, [only] if only == "*")
}

fn contains(list: &[String], text: &str) -> bool {
    is_all(list) || list.iter().any(|it| it == text)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::Query;
    use machinery::{Value, json};

    fn spec(rule: &Value) -> FlowSchemaSpec {
        serde_json::from_value(json!({
            "priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5, "rules": [rule],
        }))
        .unwrap()
    }

    fn matches(spec: &FlowSchemaSpec, user: &User, method: &Method, path: &str) -> bool {
        spec.matches(user, &RequestInfo::parse(method, path, &Query::default()).unwrap())
    }

    fn user(name: &str) -> User {
        User::authenticated(name, "", vec!["team".to_owned()])
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let of = |subject: Value| {
            spec(&json!({"subjects": [subject],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}))
        };
        let does = |subject: Value, name: &str| {
            matches(&of(subject), &user(name), &Method::GET, "/version")
        };
        assert!(does(json!({"kind": "User", "user": {"name": "*"}}), "alice"));
        assert!(does(json!({"kind": "User", "user": {"name": "alice"}}), "alice"));
        assert!(!does(json!({"kind": "User", "user": {"name": "alice"}}), "bob"));
        assert!(does(json!({"kind": "Group", "group": {"name": "team"}}), "bob"));
        assert!(!does(json!({"kind": "Group", "group": {"name": "other"}}), "bob"));
        let account = |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": name}});
        assert!(does(account("*"), "system:serviceaccount:a:x"));
        assert!(does(account("x"), "system:serviceaccount:a:x"));
        assert!(!does(account("x"), "system:serviceaccount:a:y"));
        assert!(!does(account("*"), "system:serviceaccount:ab:x"));
        assert!(!does(account("*"), "a"));
    }

    #[test]
    fn resource_rules_compare_verb_group_resource_and_namespace() {
        let of = |rule: Value| {
            spec(
                &json!({"subjects": [{"kind": "User", "user": {"name": "*"}}], "resourceRules": [rule]}),
            )
        };
        let rule = of(json!({"verbs": ["get", "list"], "apiGroups": ["apps"],
            "resources": ["deployments", "deployments/status"], "namespaces": ["a"]}));
        let does = |spec: &FlowSchemaSpec, method: Method, path: &str| {
            matches(spec, &user("alice"), &method, path)
        };
        assert!(does(&rule, Method::GET, "/apis/apps/v1/namespaces/a/deployments"));
        assert!(does(&rule, Method::GET, "/apis/apps/v1/namespaces/a/deployments/x/status"));
        assert!(!does(&rule, Method::GET, "/apis/apps/v1/namespaces/a/deployments/x/scale"));
        assert!(!does(&rule, Method::POST, "/apis/apps/v1/namespaces/a/deployments"));
        assert!(!does(&rule, Method::GET, "/apis/apps/v1/namespaces/b/deployments"));
        assert!(!does(&rule, Method::GET, "/apis/batch/v1/namespaces/a/jobs"));
        assert!(!does(&rule, Method::GET, "/apis/apps/v1/deployments"));
        let cluster = of(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "clusterScope": true}));
        assert!(does(&cluster, Method::GET, "/apis/apps/v1/deployments"));
        assert!(!does(&cluster, Method::GET, "/apis/apps/v1/namespaces/a/deployments"));
        assert!(!does(&cluster, Method::GET, "/version"));
        assert!(!does(&cluster, Method::GET, "/apis/apps/v1"), "no resource");
    }

    #[test]
    fn non_resource_rules_match_a_path_and_what_is_below_it() {
        let rule = spec(&json!({"subjects": [{"kind": "User", "user": {"name": "*"}}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/apis/*"]}]}));
        let does = |path: &str| matches(&rule, &user("alice"), &Method::GET, path);
        assert!(does("/healthz") && does("/healthz/ping") && does("/apis/apps"));
        assert!(!does("/healthzz") && !does("/version"));
    }

    #[test]
    fn flows_are_users_or_namespaces() {
        let of = |method: Option<&str>| {
            let mut value = json!({"priorityLevelConfiguration": {"name": "p"}});
            if let Some(method) = method {
                value["distinguisherMethod"] = json!({"type": method});
            }
            serde_json::from_value::<FlowSchemaSpec>(value).unwrap()
        };
        let hash = |spec: &FlowSchemaSpec, name: &str, namespace: &str| {
            let path = format!("/api/v1/namespaces/{namespace}/pods");
            let info = RequestInfo::parse(&Method::GET, &path, &Query::default()).unwrap();
            spec.flow_hash("s", &user(name), &info)
        };
        let by_user = of(Some("ByUser"));
        assert_eq!(hash(&by_user, "a", "x"), hash(&by_user, "a", "y"));
        assert_ne!(hash(&by_user, "a", "x"), hash(&by_user, "b", "x"));
        let by_namespace = of(Some("ByNamespace"));
        assert_eq!(hash(&by_namespace, "a", "x"), hash(&by_namespace, "b", "x"));
        assert_ne!(hash(&by_namespace, "a", "x"), hash(&by_namespace, "a", "y"));
        assert_eq!(hash(&of(None), "a", "x"), hash(&of(None), "b", "y"));
    }
}
