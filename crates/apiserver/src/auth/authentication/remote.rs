//! [`RemoteAuthenticators`]: the authenticators of bearer tokens that may wait for other servers.

use std::sync::Arc;

use super::oidc::OidcAuthenticator;
use super::service_account::TokenError;
use super::token_webhook::TokenWebhook;
use super::{User, common_audiences};

/// See the [module documentation](self). They are tried in the order of the fields, and the first
/// success counts.
#[derive(Debug)]
pub struct RemoteAuthenticators {
    /// Accepts tokens of other issuers.
    pub oidc: Option<Arc<OidcAuthenticator>>,
    /// Asks another server about tokens.
    pub webhook: Option<TokenWebhook>,
}

impl RemoteAuthenticators {
    /// The user of a token, and those of the `requested` audiences that the token is for. `own` are the
    /// audiences of this server.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        own: &[String],
        requested: &[String],
    ) -> Result<(User, Vec<String>), TokenError> {
        let mut error = TokenError::Unknown;
        // Upstream: tokens of other issuers are for this server only, whatever the claim `aud` says.
        if let Some(oidc) = &self.oidc
            && let Ok(audiences) = common_audiences(own, requested)
        {
            match oidc.authenticate(token).await {
                Ok(Some(user)) => return Ok((user, audiences)),
                Ok(None) => {}
                Err(why) => error = error.and(TokenError::Invalid(why)),
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.authenticate(token, own, requested).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => error = error.and(TokenError::Invalid(why)),
            }
        }
        Err(error)
    }
}
