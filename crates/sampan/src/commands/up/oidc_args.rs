//! [`OidcArgs`]: the flags for tokens of other issuers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::oidc::configuration::{
    AuthenticationConfiguration, ClaimMappings, ClaimOrExpression, ClaimValidationRule, Issuer,
    JwtAuthenticator,
};
use apiserver::auth::authentication::oidc::{ALGORITHMS, OidcSettings};

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
pub(crate) struct OidcArgs {
    /// File with an `AuthenticationConfiguration` of `apiserver.config.k8s.io/v1`: issuers whose tokens
    /// are accepted, how their claims become users, and what becomes of requests without credentials.
    /// Changes of its issuers take effect without a restart
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// URL of a provider (`OpenID` Connect) whose tokens are accepted; its keys are fetched from there
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// Audience of the provider's tokens for this server
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// File of certificate authorities in PEM of the provider [default: those of the system]
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// Claim with the user name [default: `sub`]
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// Text before user names; `-` for none [default: the URL of the provider and `#`, but none for the
    /// claim `email`]
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// Claim with the groups of the user
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// Text before groups
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// Claim that tokens must have, with its value. May be repeated
    #[arg(long, value_name = "CLAIM=VALUE", value_delimiter = ',')]
    oidc_required_claim: Vec<String>,
    /// Algorithms of accepted tokens: RS256, RS384, RS512, ES256, ES384, PS256, PS384 or PS512
    /// [default: RS256]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
}

impl OidcArgs {
    /// Reads the files; None if no other issuer is accepted.
    pub(super) fn settings(&self) -> Result<Option<OidcSettings>> {
        let has_flags = self.oidc_issuer_url.is_some()
            || self.oidc_client_id.is_some()
            || self.oidc_ca_file.is_some()
            || self.oidc_username_claim.is_some()
            || self.oidc_username_prefix.is_some()
            || self.oidc_groups_claim.is_some()
            || self.oidc_groups_prefix.is_some()
            || !self.oidc_required_claim.is_empty()
            || !self.oidc_signing_algs.is_empty();
        if let Some(path) = &self.authentication_config {
            if has_flags {
                bail!("authentication-config file and oidc-* flags are mutually exclusive");
            }
            let settings = OidcSettings::read(path.clone());
            return settings.map(Some).context("name a valid file with --authentication-config");
        }
        if !has_flags {
            return Ok(None);
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let (url, client) = (text(&self.oidc_issuer_url), text(&self.oidc_client_id));
        if url.is_empty() || client.is_empty() {
            bail!(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
            );
        }
        let algorithms = match self.oidc_signing_algs.as_slice() {
            [] => vec!["RS256".to_owned()],
            names => names.to_vec(),
        };
        if let Some(other) = algorithms.iter().find(|it| !ALGORITHMS.contains(&it.as_str())) {
            bail!("oidc: unsupported signing alg: {other:?}");
        }
        let configuration = AuthenticationConfiguration {
            jwt: vec![JwtAuthenticator {
                issuer: Issuer {
                    certificate_authority: self.authorities()?,
                    url,
                    audiences: vec![client],
                    ..Issuer::default()
                },
                claim_mappings: self.mappings(),
                claim_validation_rules: self.required_claims()?,
                ..JwtAuthenticator::default()
            }],
            ..AuthenticationConfiguration::default()
        };
        Ok(Some(OidcSettings { configuration, algorithms, file: None }))
    }

    fn authorities(&self) -> Result<String> {
        let Some(path) = &self.oidc_ca_file else { return Ok(String::new()) };
        let authorities = ClientAuthorities::read(path)
            .context("name a file of certificates with --oidc-ca-file")?;
        Ok(authorities.bundle().to_owned())
    }

    fn mappings(&self) -> ClaimMappings {
        let claim = self.oidc_username_claim.as_deref().unwrap_or("sub");
        // Upstream: a prefix keeps users of the provider apart from others, but an email needs none.
        let prefix = match self.oidc_username_prefix.as_deref() {
            Some("-") => String::new(),
            None | Some("") if claim != "email" => {
                format!("{}#", self.oidc_issuer_url.as_deref().unwrap_or_default())
            }
            prefix => prefix.unwrap_or_default().to_owned(),
        };
        let groups = match self.oidc_groups_claim.as_deref() {
            None | Some("") => ClaimOrExpression::default(),
            Some(claim) => ClaimOrExpression {
                claim: claim.to_owned(),
                prefix: Some(self.oidc_groups_prefix.clone().unwrap_or_default()),
                ..ClaimOrExpression::default()
            },
        };
        let username = ClaimOrExpression {
            claim: claim.to_owned(),
            prefix: Some(prefix),
            ..ClaimOrExpression::default()
        };
        ClaimMappings { username, groups, ..ClaimMappings::default() }
    }

    fn required_claims(&self) -> Result<Vec<ClaimValidationRule>> {
        // The last value of a claim counts, as in a map.
        let mut claims = BTreeMap::new();
        for pair in &self.oidc_required_claim {
            let Some((claim, value)) = pair.split_once('=') else {
                bail!("malformed pair, expect string=string in --oidc-required-claim: {pair:?}");
            };
            claims.insert(claim.trim().to_owned(), value.trim().to_owned());
        }
        let rule = |(claim, required_value)| ClaimValidationRule {
            claim,
            required_value,
            ..ClaimValidationRule::default()
        };
        Ok(claims.into_iter().map(rule).collect())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: OidcArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<OidcSettings>> {
        Line::try_parse_from([&["up"], flags].concat())?.args.settings()
    }

    /// The prefix of user names with these flags.
    fn prefix(flags: &[&str]) -> String {
        let required = ["--oidc-issuer-url=https://a", "--oidc-client-id=x"];
        let found = settings(&[&required, flags].concat()).unwrap().unwrap();
        found.configuration.jwt[0].claim_mappings.username.prefix.clone().unwrap()
    }

    #[test]
    fn user_names_have_the_issuer_as_prefix_unless_they_are_emails() {
        assert_eq!(prefix(&[]), "https://a#");
        assert_eq!(prefix(&["--oidc-username-claim=name"]), "https://a#");
        assert_eq!(prefix(&["--oidc-username-claim=email"]), "");
        assert_eq!(prefix(&["--oidc-username-prefix=-"]), "");
        assert_eq!(prefix(&["--oidc-username-prefix=p:"]), "p:");
        assert_eq!(prefix(&["--oidc-username-claim=email", "--oidc-username-prefix=p:"]), "p:");
    }

    #[test]
    fn flags_have_the_forms_of_kube_apiserver() {
        let found = settings(&[
            "--oidc-issuer-url=https://a",
            "--oidc-client-id=x",
            "--oidc-groups-claim=groups",
            "--oidc-required-claim=a=b,c=d",
            "--oidc-signing-algs=RS256,ES256",
        ]);
        let found = found.unwrap().unwrap();
        let jwt = &found.configuration.jwt[0];
        assert_eq!(found.algorithms, ["RS256", "ES256"]);
        assert_eq!(jwt.claim_mappings.groups.prefix.as_deref(), Some(""));
        let rules = jwt.claim_validation_rules.iter();
        let rules: Vec<_> =
            rules.map(|it| (it.claim.as_str(), it.required_value.as_str())).collect();
        assert_eq!(rules, [("a", "b"), ("c", "d")]);
        assert!(settings(&[]).unwrap().is_none());
    }

    #[test]
    fn flags_that_exclude_each_other_or_are_incomplete_are_refused() {
        let refused = |flags: &[&str]| settings(flags).unwrap_err().to_string();
        assert_eq!(
            refused(&["--authentication-config=/nowhere", "--oidc-client-id=x"]),
            "authentication-config file and oidc-* flags are mutually exclusive"
        );
        assert_eq!(
            refused(&["--oidc-groups-claim=g"]),
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        );
        let complete = ["--oidc-issuer-url=https://a", "--oidc-client-id=x"];
        for other in ["--oidc-signing-algs=HS256", "--oidc-required-claim=a", "--oidc-ca-file=/x"] {
            refused(&[&complete[..], &[other]].concat());
        }
        assert!(refused(&["--authentication-config=/nowhere"]).contains("--authentication-config"));
    }
}
