//! [`IssuerDiscovery`]: the documents with which other programs verify service account tokens, as
//! `OpenID` Connect Discovery specifies them.
//!
//! Upstream: `pkg/serviceaccount/openidmetadata.go`.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Uri;
use serde::Serialize;

use super::TokenSigner;
use crate::auth::authentication::json_web_token::JsonWebKey;

/// The path of the key set.
pub(crate) const KEY_SET_PATH: &str = "/openid/v1/jwks";

/// See the [module documentation](self). The keys do not change while the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssuerDiscovery {
    /// The issuer and the URL of the key set.
    pub configuration: Bytes,
    /// The public keys.
    pub key_set: Bytes,
}

/// The reason why the documents are not served. The tokens are valid nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DiscoveryError {
    /// Choose an issuer with this scheme.
    #[error("issuer URL must use https scheme, got: {0}")]
    Scheme(String),
    /// Choose an issuer without a query.
    #[error("issuer URL may not include a query, got: {0}")]
    Query(String),
    /// Choose an issuer without a fragment.
    #[error("issuer URL may not include a fragment, got: {0}")]
    Fragment(String),
    /// Configure the URL of the key set, or an address to listen on.
    #[error("either the JWKS URI or the default external address, or both, must be set")]
    NoAddress,
}

/// The configuration, with its fields in output order.
#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: BTreeSet<&'static str>,
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: Vec<&'a JsonWebKey>,
}

impl IssuerDiscovery {
    /// The documents of a signer. `address` is the host and the port of the server.
    pub(crate) fn new(signer: &TokenSigner, address: Option<&str>) -> Result<Self, DiscoveryError> {
        let issuer = signer.settings.issuer();
        let jwks_uri = match (&signer.settings.jwks_uri, address) {
            (Some(uri), _) => uri.clone(),
            (None, Some(address)) => format!("https://{address}{KEY_SET_PATH}"),
            (None, None) => return Err(DiscoveryError::NoAddress),
        };
        check_issuer(issuer)?;
        let keys: Vec<&JsonWebKey> = signer.keys().iter().map(|it| &it.jwk).collect();
        let configuration = Configuration {
            issuer,
            jwks_uri: &jwks_uri,
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: keys.iter().map(|it| it.alg).collect(),
        };
        Ok(Self { configuration: encode(&configuration), key_set: encode(&KeySet { keys }) })
    }
}

fn encode(document: &impl Serialize) -> Bytes {
    serde_json::to_vec(document).expect("documents serialize to JSON").into()
}

fn check_issuer(issuer: &str) -> Result<(), DiscoveryError> {
    if !is_https(issuer) {
        return Err(DiscoveryError::Scheme(issuer.to_owned()));
    }
    // A URI in the sense of the parser has no fragment.
    if issuer.contains('#') {
        return Err(DiscoveryError::Fragment(issuer.to_owned()));
    }
    if issuer.contains('?') {
        return Err(DiscoveryError::Query(issuer.to_owned()));
    }
    Ok(())
}

/// Returns whether a text is an HTTPS URL.
pub(super) fn is_https(text: &str) -> bool {
    text.parse::<Uri>().is_ok_and(|it| it.scheme_str() == Some("https"))
}

#[cfg(test)]
mod tests {
    use super::super::ServiceAccountSettings;
    use super::*;

    fn check(issuer: &str, expect: Result<(), &str>) {
        let issuers = vec![issuer.to_owned()];
        let settings = ServiceAccountSettings { issuers, ..Default::default() };
        let documents = IssuerDiscovery::new(&TokenSigner::new(settings).unwrap(), Some("h:1"));
        let expect = expect.map_err(str::to_owned);
        assert_eq!(documents.map(|_| ()).map_err(|it| it.to_string()), expect);
    }

    #[test]
    fn an_issuer_that_is_no_plain_https_url_has_no_documents() {
        check("https://a/b", Ok(()));
        check("a", Err("issuer URL must use https scheme, got: a"));
        check("http://a", Err("issuer URL must use https scheme, got: http://a"));
        check("https://a?b", Err("issuer URL may not include a query, got: https://a?b"));
        check("https://a#b", Err("issuer URL may not include a fragment, got: https://a#b"));
    }
}
