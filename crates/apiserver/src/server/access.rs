//! The authorizers of a plane, and the documents with which others verify its tokens, from its
//! configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::auth::authentication::service_account::TokenSigner;
use crate::auth::authentication::service_account::issuer_discovery::{
    DiscoveryError, IssuerDiscovery,
};
use crate::auth::authorization::{Authorizer, Authorizers};
use crate::config::AuthorizerConfig;
use crate::node_authorizer::NodeAuthorizer;
use crate::rbac::authorizer::RbacAuthorizer;
use crate::rbac::rule_resolver::RuleResolver;
use crate::storage::Storage;

/// The documents for verifiers of service account tokens. Without them, the plane works nevertheless.
pub(super) fn issuer_discovery(
    signer: &TokenSigner,
    advertised: Option<SocketAddr>,
) -> Option<IssuerDiscovery> {
    let address = advertised.map(|it| it.to_string());
    match IssuerDiscovery::new(signer, address.as_deref()) {
        Ok(documents) => Some(documents),
        // A plane that does not listen has no address of its key set.
        Err(DiscoveryError::NoAddress) => None,
        Err(error) => {
            tracing::warn!(%error, "the issuer of service account tokens cannot be discovered");
            None
        }
    }
}

/// The authorizers of a plane. `rules` is absent if roles are not in effect.
pub(super) fn authorizers(
    configured: &[AuthorizerConfig],
    rules: Option<&Arc<RuleResolver>>,
    storage: &Storage,
) -> Authorizers {
    let mut authorizers: Vec<Arc<dyn Authorizer>> = Vec::new();
    for authorizer in configured {
        match (authorizer, rules) {
            (AuthorizerConfig::Other(authorizer), _) => authorizers.push(Arc::clone(authorizer)),
            (AuthorizerConfig::Rbac, Some(rules)) => {
                authorizers.push(Arc::new(RbacAuthorizer(Arc::clone(rules))));
            }
            (AuthorizerConfig::Rbac, None) => {}
            (AuthorizerConfig::Node, _) => {
                authorizers.push(Arc::new(NodeAuthorizer::start(storage)));
            }
        }
    }
    match rules {
        Some(_) => Authorizers::with_roles(&authorizers),
        None => Authorizers::new(&authorizers),
    }
}
