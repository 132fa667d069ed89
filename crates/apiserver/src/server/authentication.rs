//! The authenticators of a plane that call other servers, and the documents with which others verify its
//! tokens, from its configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use super::Error;
use crate::auth::authentication::oidc;
use crate::auth::authentication::oidc::OidcAuthenticator;
use crate::auth::authentication::remote::RemoteAuthenticators;
use crate::auth::authentication::service_account::TokenSigner;
use crate::auth::authentication::service_account::issuer_discovery::{
    DiscoveryError, IssuerDiscovery,
};
use crate::auth::authentication::token_webhook::TokenWebhook;
use crate::auth::metrics::AuthenticationMetrics;
use crate::config::Config;
use crate::storage::Storage;

/// The documents for verifiers of service account tokens. Without them, the plane works nevertheless.
pub(super) fn issuer_discovery(
    signer: &TokenSigner,
    address: Option<SocketAddr>,
) -> Option<IssuerDiscovery> {
    let address = address.map(|it| it.to_string());
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

/// The authenticators that may wait for other servers; None if there are none.
pub(super) fn remote_authenticators(
    config: &Config,
    signer: &TokenSigner,
    storage: &Storage,
    metrics: &mut Registry,
) -> Result<Option<RemoteAuthenticators>, Error> {
    let (clock, tasks) = (&storage.clock, &storage.tasks);
    let mut oidc = None;
    if let Some(settings) = &config.oidc {
        let metrics = Arc::new(AuthenticationMetrics::new(metrics));
        let issuers = &signer.settings.issuers;
        let started = Arc::new(OidcAuthenticator::start(settings, issuers, clock, tasks, metrics)?);
        if settings.file.is_some() {
            let reloading = oidc::reload::run(Arc::clone(&started), settings.clone());
            tasks.spawn("authentication-config", reloading);
        }
        oidc = Some(started);
    }
    let webhook = config.token_webhook.clone();
    let webhook = webhook.map(|it| TokenWebhook::new(it, clock, &storage.entropy, tasks));
    if oidc.is_none() && webhook.is_none() {
        return Ok(None);
    }
    Ok(Some(RemoteAuthenticators { oidc, webhook }))
}
