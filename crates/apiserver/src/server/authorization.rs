//! The authorizers of a plane from its configuration, and from the file of `--authorization-config`
//! again when it changes.
//!
//! A file that is not valid is logged and counted, and the authorizers stay as they are.

use std::fs;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::auth::authorization::always::{AlwaysAllow, AlwaysDeny};
use crate::auth::authorization::configuration::{
    AuthorizationFile, AuthorizerType, ConfiguredAuthorizer,
};
use crate::auth::authorization::webhook::{WebhookAuthorizer, WebhookAuthorizerSettings};
use crate::auth::authorization::{Authorizer, Authorizers};
use crate::auth::metrics::AuthorizationMetrics;
use crate::config::AuthorizerConfig;
use crate::config_files::followed::Followed;
use crate::node_authorizer::NodeAuthorizer;
use crate::rbac::authorizer::RbacAuthorizer;
use crate::rbac::rule_resolver::RuleResolver;
use crate::storage::Storage;
use keel::{blocking, message_with_causes};

/// Whether one of the authorizers grants the rights of roles.
pub(super) fn has_roles(configured: &[AuthorizerConfig]) -> bool {
    has(configured, AuthorizerType::Rbac)
}

fn has(configured: &[AuthorizerConfig], wanted: AuthorizerType) -> bool {
    configured.iter().any(|it| match it {
        AuthorizerConfig::Rbac => wanted == AuthorizerType::Rbac,
        AuthorizerConfig::Node => wanted == AuthorizerType::Node,
        AuthorizerConfig::Webhook(_) => wanted == AuthorizerType::Webhook,
        AuthorizerConfig::File(file) => file.has(wanted),
        AuthorizerConfig::Other(_) => false,
    })
}

/// The authorizers of a plane, which follow the file, if there is one. `rules` is absent if roles are
/// not in effect.
pub(super) fn start(
    configured: &[AuthorizerConfig],
    rules: Option<&Arc<RuleResolver>>,
    storage: &Arc<Storage>,
    metrics: &mut Registry,
) -> Authorizers {
    let file = configured.iter().find_map(|it| match it {
        AuthorizerConfig::File(file) => Some(Arc::clone(file)),
        _ => None,
    });
    let has_metrics = file.is_some() || has(configured, AuthorizerType::Webhook);
    let node = has(configured, AuthorizerType::Node);
    let factory = Factory {
        configured: configured.to_vec(),
        rbac: rules.map(|rules| Arc::new(RbacAuthorizer(Arc::clone(rules))) as _),
        node: node.then(|| Arc::new(NodeAuthorizer::start(storage)) as _),
        metrics: has_metrics.then(|| Arc::new(AuthorizationMetrics::new(metrics))),
        storage: Arc::clone(storage),
    };
    let of_file = file.as_ref().map(|it| it.authorizers.as_slice()).unwrap_or_default();
    let members = factory.members(of_file);
    let authorizers = match rules {
        Some(_) => Authorizers::with_roles(&members),
        None => Authorizers::new(&members),
    };
    if let Some(file) = file {
        let following = follow(file, factory, authorizers.clone());
        storage.tasks.spawn("authorization-config", following);
    }
    authorizers
}

/// Makes the authorizers. Those that follow objects of the plane are made once.
struct Factory {
    configured: Vec<AuthorizerConfig>,
    rbac: Option<Arc<dyn Authorizer>>,
    node: Option<Arc<dyn Authorizer>>,
    metrics: Option<Arc<AuthorizationMetrics>>,
    storage: Arc<Storage>,
}

impl Factory {
    /// The authorizers in their order; `of_file` are those of the file.
    fn members(&self, of_file: &[ConfiguredAuthorizer]) -> Vec<Arc<dyn Authorizer>> {
        let mut members = Vec::new();
        for configured in &self.configured {
            match configured {
                AuthorizerConfig::Rbac => members.extend(self.rbac.clone()),
                AuthorizerConfig::Node => members.extend(self.node.clone()),
                AuthorizerConfig::Webhook(settings) => members.extend(self.webhook(settings)),
                AuthorizerConfig::File(file) => {
                    members.extend(of_file.iter().filter_map(|it| self.member(it, file)));
                }
                AuthorizerConfig::Other(authorizer) => members.push(Arc::clone(authorizer)),
            }
        }
        members
    }

    /// An authorizer of the file.
    fn member(
        &self,
        configured: &ConfiguredAuthorizer,
        file: &AuthorizationFile,
    ) -> Option<Arc<dyn Authorizer>> {
        match configured {
            ConfiguredAuthorizer::Webhook(settings) => self.webhook(settings),
            ConfiguredAuthorizer::BuiltIn(built_in) => match built_in {
                AuthorizerType::Rbac => self.rbac.clone(),
                AuthorizerType::Node => self.node.clone(),
                AuthorizerType::Abac => file.policies.clone(),
                AuthorizerType::AlwaysAllow => Some(Arc::new(AlwaysAllow)),
                AuthorizerType::AlwaysDeny => Some(Arc::new(AlwaysDeny)),
                AuthorizerType::Webhook => None,
            },
        }
    }

    fn webhook(&self, settings: &WebhookAuthorizerSettings) -> Option<Arc<dyn Authorizer>> {
        let Storage { clock, entropy, tasks, .. } = &*self.storage;
        let (settings, metrics) = (settings.clone(), self.metrics.clone()?);
        Some(Arc::new(WebhookAuthorizer::new(settings, clock, entropy, tasks, metrics)))
    }

    fn count_reload(&self, succeeded: bool) {
        const NANOSECONDS: i64 = 1_000_000_000;
        if let Some(metrics) = &self.metrics {
            metrics.count_reload(succeeded, self.storage.clock.now_unix_nanos() / NANOSECONDS);
        }
    }
}

/// Follows the file until the plane stops.
async fn follow(file: Arc<AuthorizationFile>, factory: Factory, authorizers: Authorizers) {
    let Storage { clock, tasks, .. } = &*factory.storage;
    let name = "authorization configuration";
    let mut followed = Followed::new(name, clock, tasks, Some(file.text.clone()));
    while let Some(change) = followed.changed(|| fs::read_to_string(&file.path).map(Some)).await {
        let Ok(text) = change else {
            factory.count_reload(false);
            continue;
        };
        match blocking(|| file.parse_again(&text)) {
            Ok(of_file) => {
                authorizers.replace(&factory.members(&of_file));
                tracing::info!("reloaded authz config");
                factory.count_reload(true);
            }
            Err(error) => {
                followed.fail(message_with_causes(&error));
                factory.count_reload(false);
            }
        }
        followed.settle(text);
    }
}
