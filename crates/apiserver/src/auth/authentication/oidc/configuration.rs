//! [`AuthenticationConfiguration`]: the contents of the file of `--authentication-config`.
//!
//! Upstream: `apiserver.config.k8s.io` `AuthenticationConfiguration`, whose versions have the same
//! fields.

use serde::{Deserialize, Serialize};

use super::super::anonymous::Anonymous;
use machinery::codec::yaml;
use machinery::field_path::quote;
use machinery::{Path, Value};

/// The group of the configuration.
const GROUP: &str = "apiserver.config.k8s.io";

/// The versions of the configuration.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

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
        let decoded = yaml::decode(text).map_err(|error| error.to_string())?;
        let field = |name: &str| decoded.value[name].as_str().unwrap_or_default();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        if kind.is_empty() || api_version.is_empty() {
            let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
            return Err(format!("Object '{missing}' is missing in the configuration"));
        }
        let is_known = api_version.split_once('/').is_some_and(|(group, version)| {
            group == GROUP && VERSIONS.contains(&version) && kind == KIND
        });
        if !is_known {
            return Err(format!(
                "no kind {} is registered for version {}: use {KIND} in {GROUP}/{}",
                quote(kind),
                quote(api_version),
                VERSIONS[0]
            ));
        }
        let configuration: Self = serde_json::from_value(without_nulls(decoded.value.clone()))
            .map_err(|error| error.to_string())?;
        let known = serde_json::to_value(&configuration).map_err(|error| error.to_string())?;
        let mut errors = decoded.strict_errors();
        find_unknown(&decoded.value, &known, &Path::EMPTY, &mut errors);
        for (index, jwt) in configuration.jwt.iter().enumerate() {
            if jwt.claim_mappings.uid.prefix.is_some() {
                errors.push(format!("unknown field \"jwt[{index}].claimMappings.uid.prefix\""));
            }
        }
        if errors.is_empty() {
            return Ok(configuration);
        }
        Err(format!("strict decoding error: {}", errors.join(", ")))
    }
}

/// Upstream: a field that is null has its default.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Adds an error for every field that is not in `known`, in which every field is that was read.
fn find_unknown(found: &Value, known: &Value, path: &Path<'_>, errors: &mut Vec<String>) {
    match (found, known) {
        (Value::Object(fields), Value::Object(known)) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = path.child(name);
                if let Some(known) = known.get(name) {
                    find_unknown(value, known, &path, errors);
                    continue;
                }
                let path = path.to_string();
                errors.push(format!("unknown field {}", quote(path.trim_start_matches('.'))));
            }
        }
        (Value::Array(items), Value::Array(known)) => {
            for (index, (item, known)) in items.iter().zip(known).enumerate() {
                find_unknown(item, known, &path.index(index), errors);
            }
        }
        _ => {}
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
