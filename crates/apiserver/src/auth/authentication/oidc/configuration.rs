//! [`AuthenticationConfiguration`]: the contents of the file of `--authentication-config`.
//!
//! Upstream: `apiserver.config.k8s.io` `AuthenticationConfiguration`, whose versions have the same
//! fields.

use serde::{Deserialize, Serialize};

use super::super::anonymous::Anonymous;
use crate::config_files::strict_decoding;

/// The kind of the configuration.
const KIND: &str = "AuthenticationConfiguration";

/// See the [module documentation](self).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuthenticationConfiguration {
    /// The group and the version of the configuration.
    pub api_version: String,
    /// `AuthenticationConfiguration`.
    pub kind: String,
    /// The issuers of accepted tokens.
    pub jwt: Vec<JwtAuthenticator>,
    /// What becomes of requests without credentials; None if a flag says so.
    pub anonymous: Option<AnonymousConfiguration>,
}

/// An issuer, and how its tokens become users.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JwtAuthenticator {
    /// The issuer.
    pub issuer: Issuer,
    /// What the claims of a token must be.
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// The user that the claims of a token describe.
    pub claim_mappings: ClaimMappings,
    /// What the user must be.
    pub user_validation_rules: Vec<UserValidationRule>,
}

/// The issuer of tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Issuer {
    /// The claim `iss` of its tokens, and the URL below which its document is.
    pub url: String,
    /// The URL of its document, if that is elsewhere.
    #[serde(rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    /// The authorities of its certificate, in PEM; if empty, those of the system.
    pub certificate_authority: String,
    /// The audiences of its tokens, one of which a token must have.
    pub audiences: Vec<String>,
    /// `MatchAny`, or empty for a single audience.
    pub audience_match_policy: String,
    /// The network of the issuer; not supported.
    pub egress_selector_type: String,
}

/// A claim that has a value, or an expression that is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimValidationRule {
    /// The name of the claim.
    pub claim: String,
    /// Its value.
    pub required_value: String,
    /// An expression about `claims`.
    pub expression: String,
    /// The error if it is not true.
    pub message: String,
}

/// The user that the claims of a token describe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimMappings {
    /// The user name.
    pub username: ClaimOrExpression,
    /// The groups.
    pub groups: ClaimOrExpression,
    /// The uid, which has no prefix.
    pub uid: ClaimOrExpression,
    /// Further attributes.
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimOrExpression {
    /// The name of the claim.
    pub claim: String,
    /// The text before the value of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// An expression about `claims`.
    pub expression: String,
}

/// An attribute of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtraMapping {
    /// The key of the attribute, with a domain.
    pub key: String,
    /// An expression about `claims`.
    pub value_expression: String,
}

/// An expression about `user` that is true.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UserValidationRule {
    /// The expression.
    pub expression: String,
    /// The error if it is not true.
    pub message: String,
}

/// What becomes of requests without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnonymousConfiguration {
    /// Whether they are accepted.
    pub enabled: bool,
    /// The requests that are accepted; if empty, all.
    pub conditions: Vec<AnonymousCondition>,
}

/// A request that is accepted without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AnonymousCondition {
    /// The path of the request.
    pub path: String,
}

impl From<&AnonymousConfiguration> for Anonymous {
    fn from(configuration: &AnonymousConfiguration) -> Self {
        match configuration.conditions.as_slice() {
            _ if !configuration.enabled => Self::Refused,
            [] => Self::Accepted,
            paths => Self::AcceptedAt(paths.iter().map(|it| it.path.clone()).collect()),
        }
    }
}

impl AuthenticationConfiguration {
    /// Reads YAML or JSON. Fields that do not exist and repeated ones are errors. The error is a
    /// message for users.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty config data".to_owned());
        }
        strict_decoding::decode(text, KIND, |configuration: &Self, errors| {
            for (index, jwt) in configuration.jwt.iter().enumerate() {
                if jwt.claim_mappings.uid.prefix.is_some() {
                    errors.push(format!("unknown field \"jwt[{index}].claimMappings.uid.prefix\""));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

    #[test]
    fn a_file_has_issuers_and_what_becomes_of_requests_without_credentials() {
        let text = format!(
            "{HEAD}jwt:\n- issuer:\n    url: https://a\n    discoveryURL: https://b\n    audiences: [x]\n  \
             claimMappings:\n    username: {{claim: sub, prefix: \"\"}}\n    groups: null\n\
             anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}\n"
        );
        let found = AuthenticationConfiguration::parse(text.as_bytes()).unwrap();
        let jwt = &found.jwt[0];
        assert_eq!((jwt.issuer.url.as_str(), jwt.issuer.audiences.len()), ("https://a", 1));
        assert_eq!(jwt.issuer.discovery_url.as_deref(), Some("https://b"));
        assert_eq!(jwt.claim_mappings.username.prefix.as_deref(), Some(""));
        let anonymous = Anonymous::from(found.anonymous.as_ref().unwrap());
        assert_eq!(anonymous, Anonymous::AcceptedAt(vec!["/livez".to_owned()]));
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused() {
        let refused = |text: &str| {
            let text = format!("{HEAD}{text}");
            AuthenticationConfiguration::parse(text.as_bytes()).unwrap_err()
        };
        assert_eq!(
            refused("jwt: [{issuer: {urls: https://a}}]\nother: 1"),
            r#"strict decoding error: unknown field "jwt[0].issuer.urls", unknown field "other""#
        );
        assert_eq!(
            refused("jwt: [{claimMappings: {uid: {claim: a, prefix: b}}}]"),
            r#"strict decoding error: unknown field "jwt[0].claimMappings.uid.prefix""#
        );
        let repeated = refused("jwt: []\njwt: []");
        assert!(repeated.contains(r#"key "jwt" already set in map"#), "{repeated}");
    }

    #[test]
    fn another_kind_is_refused() {
        let refused = |text: &str| AuthenticationConfiguration::parse(text.as_bytes()).unwrap_err();
        assert_eq!(refused(""), "empty config data");
        assert!(refused("kind: AuthenticationConfiguration").contains("apiVersion"));
        let other = refused("apiVersion: v1\nkind: Secret");
        assert!(other.starts_with(r#"no kind "Secret" is registered for version "v1""#), "{other}");
    }
}
