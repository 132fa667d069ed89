//! `create role`, `create clusterrole` and their bindings.

use super::GeneratorArgs;
use crate::error::Error;
use crate::io::Io;
use crate::session::Session;
use machinery::{Map, Value, json};

/// The API of roles.
const RBAC: &str = "rbac.authorization.k8s.io";

/// Create a Role
#[derive(Debug, clap::Args)]
pub(super) struct RoleArgs {
    /// Name of the role
    name: String,
    #[command(flatten)]
    rule: RuleArgs,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a ClusterRole
#[derive(Debug, clap::Args)]
pub(super) struct ClusterRoleArgs {
    /// Name of the role
    name: String,
    #[command(flatten)]
    rule: RuleArgs,
    /// Path that is no resource, such as /logs/*
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    non_resource_url: Vec<String>,
    /// Labels of the roles whose rules the role has, as KEY=VALUE
    #[arg(long, value_name = "SELECTOR", value_delimiter = ',')]
    aggregation_rule: Vec<String>,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// What a role allows.
#[derive(Debug, clap::Args)]
struct RuleArgs {
    /// Verbs, such as get,list,watch
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verb: Vec<String>,
    /// Resources, such as pods,deployments.apps/scale
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
    resource: Vec<String>,
    /// Names of the objects; without it, all
    #[arg(long, value_name = "NAME")]
    resource_name: Vec<String>,
}

/// Create a RoleBinding
#[derive(Debug, clap::Args)]
pub(super) struct RoleBindingArgs {
    /// Name of the binding
    name: String,
    /// Role of the namespace
    #[arg(long, value_name = "NAME", conflicts_with = "clusterrole")]
    role: Option<String>,
    /// ClusterRole, which applies in the namespace
    #[arg(long, value_name = "NAME", required_unless_present = "role")]
    clusterrole: Option<String>,
    #[command(flatten)]
    subjects: SubjectArgs,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Create a ClusterRoleBinding
#[derive(Debug, clap::Args)]
pub(super) struct ClusterRoleBindingArgs {
    /// Name of the binding
    name: String,
    /// ClusterRole
    #[arg(long, value_name = "NAME")]
    clusterrole: String,
    #[command(flatten)]
    subjects: SubjectArgs,
    #[command(flatten)]
    common: GeneratorArgs,
}

/// Who gets a role.
#[derive(Debug, clap::Args)]
struct SubjectArgs {
    /// User
    #[arg(long = "user", id = "subject_user", value_name = "NAME")]
    users: Vec<String>,
    /// Group
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Service account, as NAMESPACE:NAME
    #[arg(long = "serviceaccount", value_name = "NAMESPACE:NAME")]
    service_accounts: Vec<String>,
}

impl RoleArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.rule.verb.is_empty() {
            return Err(Error::message("at least one verb must be specified"));
        }
        if self.rule.resource.is_empty() {
            return Err(Error::message("at least one resource must be specified"));
        }
        let rules = self.rule.rules(session).await?;
        let object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role",
            "metadata": {"name": self.name}, "rules": rules});
        self.common.create(session, io, object, "").await
    }
}

impl ClusterRoleArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let mut object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": self.name}, "rules": []});
        if self.aggregation_rule.is_empty() {
            if self.rule.verb.is_empty() {
                return Err(Error::message("at least one verb must be specified"));
            }
            if self.rule.resource.is_empty() && self.non_resource_url.is_empty() {
                return Err(Error::message("one of resource or nonResourceURL must be specified"));
            }
            let mut rules = self.rule.rules(session).await?;
            if !self.non_resource_url.is_empty() {
                rules.push(json!({
                    "verbs": self.rule.verb, "nonResourceURLs": self.non_resource_url}));
            }
            object["rules"] = rules.into();
        } else {
            let mut labels = Map::new();
            for pair in &self.aggregation_rule {
                let (key, value) = super::key_value(pair, "aggregation rule")?;
                labels.insert(key.to_owned(), value.into());
            }
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        }
        self.common.create(session, io, object, "").await
    }
}

impl RuleArgs {
    /// A rule for each group.
    async fn rules(&self, session: &Session) -> Result<Vec<Value>, Error> {
        let discovery = session.discovery().await?;
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for word in &self.resource {
            let (word, subresource) = match word.split_once('/') {
                Some((word, subresource)) => (word, format!("/{subresource}")),
                None => (word.as_str(), String::new()),
            };
            let (group, name) = if word == "*" {
                (String::new(), "*".to_owned())
            } else {
                let found = discovery.resource(word);
                let found = found.map_err(|error| Error::Verbatim(error.to_string()))?;
                (found.group.clone(), format!("{}{subresource}", found.name))
            };
            match groups.iter_mut().find(|it| it.0 == group) {
                Some((_, names)) => names.push(name),
                None => groups.push((group, vec![name])),
            }
        }
        let rule = |(group, resources): (String, Vec<String>)| {
            let mut rule =
                json!({"verbs": self.verb, "apiGroups": [group], "resources": resources});
            if !self.resource_name.is_empty() {
                rule["resourceNames"] = self.resource_name.clone().into();
            }
            rule
        };
        Ok(groups.into_iter().map(rule).collect())
    }
}

impl RoleBindingArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let (kind, role) = match (&self.role, &self.clusterrole) {
            (Some(role), _) => ("Role", role),
            (None, Some(role)) => ("ClusterRole", role),
            (None, None) => {
                return Err(Error::message("exactly one of clusterrole or role must be specified"));
            }
        };
        let object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": self.name}, "subjects": self.subjects.list()?,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role}});
        self.common.create(session, io, object, "failed to create rolebinding: ").await
    }
}

impl ClusterRoleBindingArgs {
    pub(super) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        let object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": self.name}, "subjects": self.subjects.list()?,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": self.clusterrole}});
        self.common.create(session, io, object, "failed to create clusterrolebinding: ").await
    }
}

impl SubjectArgs {
    fn list(&self) -> Result<Vec<Value>, Error> {
        let person =
            |kind: &str, name: &String| json!({"kind": kind, "apiGroup": RBAC, "name": name});
        let mut subjects: Vec<Value> = self.users.iter().map(|it| person("User", it)).collect();
        subjects.extend(self.groups.iter().map(|it| person("Group", it)));
        for account in &self.service_accounts {
            let Some((namespace, name)) =
                account.split_once(':').filter(|it| !it.0.is_empty() && !it.1.is_empty())
            else {
                return Err(Error::message("serviceaccount must be <namespace>:<name>"));
            };
            subjects.push(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
        }
        Ok(subjects)
    }
}
