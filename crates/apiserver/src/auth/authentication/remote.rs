//! [`RemoteAuthenticators`]: the authenticators of bearer tokens that may wait for other servers.

use std::net::{IpAddr, Ipv6Addr};
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

/// Who has sent a token. The senders of tokens share the questions to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenSender<'a> {
    /// The address of a request that the token authenticates; None within the process.
    Address(Option<IpAddr>),
    /// The user of a `TokenReview`.
    User(&'a str),
}

impl TokenSender<'_> {
    /// The client to which the sender belongs.
    pub(super) fn client(self) -> String {
        match self {
            Self::Address(None) => "process".to_owned(),
            Self::Address(Some(address)) => match address.to_canonical() {
                IpAddr::V4(address) => format!("address:{address}"),
                // A machine can have all addresses of its network.
                IpAddr::V6(address) => {
                    let network = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
                    format!("address:{network}")
                }
            },
            Self::User(name) => format!("user:{name}"),
        }
    }
}

impl RemoteAuthenticators {
    /// The user of a token, and those of the `requested` audiences that the token is for. `own` are the
    /// audiences of this server, `sender` is the client.
    pub(super) async fn authenticate(
        &self,
        sender: TokenSender<'_>,
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
            match webhook.authenticate(sender, token, own, requested).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(why) => error = error.and(TokenError::Invalid(why)),
            }
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_client() {
        let client = |address: &str| TokenSender::Address(Some(address.parse().unwrap())).client();
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("::ffff:10.0.0.1"), client("::ffff:10.0.0.2"));
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
        assert_ne!(TokenSender::User("10.0.0.1").client(), client("10.0.0.1"));
    }
}
