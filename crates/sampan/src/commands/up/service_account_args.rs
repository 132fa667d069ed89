//! [`ServiceAccountArgs`]: the flags for keys, issuers and lifetimes of service account tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::duration_arg::parse_duration;
use apiserver::auth::authentication::json_web_token::key_file;
use apiserver::auth::authentication::service_account::ServiceAccountSettings;

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceAccountArgs {
    /// File with the private key in PEM that signs service account tokens, RSA or EC on the curve P-256
    /// or P-384 [default: `pki/sa.key` in the data directory, whose tokens are accepted besides this
    /// key's only if `--service-account-key-file` names it]
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// File with keys in PEM whose service account tokens are accepted, besides the key that signs:
    /// public keys, private keys or certificates. May be repeated
    #[arg(long, value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// Issuer of service account tokens. If repeated, the first one is that of new tokens, and tokens of
    /// all are accepted [default: `https://kubernetes.default.svc`]
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// Audiences of tokens for this server [default: the issuers of service account tokens]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    api_audiences: Vec<String>,
    /// URL of the key set in the document at `/.well-known/openid-configuration`, if other programs
    /// reach it elsewhere than at this server
    #[arg(long, value_name = "URL")]
    service_account_jwks_uri: Option<String>,
    /// Maximum lifetime of service account tokens, as in `24h`, at least an hour; that of a longer
    /// request is shortened [default: 2^32 seconds]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    service_account_max_token_expiration: Option<Duration>,
    /// Whether the tokens that are mounted into pods by default are valid for a year, for programs that
    /// do not read a new one
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    service_account_extend_token_expiration: bool,
}

impl ServiceAccountArgs {
    /// Reads the files of keys.
    pub(super) fn settings(&self) -> Result<ServiceAccountSettings> {
        let signing_key = match &self.service_account_signing_key_file {
            Some(path) => Some(Arc::new(
                key_file::read_signing_key(path)
                    .context("name a file with a key with --service-account-signing-key-file")?,
            )),
            None => None,
        };
        let mut keys = Vec::new();
        for path in &self.service_account_key_file {
            let read = key_file::read_public_keys(path)
                .context("name a file with keys with --service-account-key-file")?;
            keys.extend(read);
        }
        let mut settings = ServiceAccountSettings {
            signing_key,
            keys,
            api_audiences: self.api_audiences.clone(),
            jwks_uri: self.service_account_jwks_uri.clone(),
            // Upstream: zero is no limit.
            max_expiration: self.service_account_max_token_expiration.filter(|it| !it.is_zero()),
            extends_expiration: self.service_account_extend_token_expiration,
            ..ServiceAccountSettings::default()
        };
        if !self.service_account_issuer.is_empty() {
            settings.issuers.clone_from(&self.service_account_issuer);
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ServiceAccountArgs,
    }

    fn settings(flags: &[&str]) -> Result<ServiceAccountSettings> {
        Line::try_parse_from([&["up"], flags].concat())?.args.settings()
    }

    #[test]
    fn the_default_is_that_of_the_server() {
        let (found, default) = (settings(&[]).unwrap(), ServiceAccountSettings::default());
        assert_eq!(format!("{found:?}"), format!("{default:?}"));
    }

    #[test]
    fn flags_have_the_forms_of_kube_apiserver() {
        let found = settings(&[
            "--service-account-issuer=https://a",
            "--service-account-issuer=https://b",
            "--api-audiences=x,y",
            "--service-account-max-token-expiration=1h30m",
            "--service-account-extend-token-expiration=false",
        ])
        .unwrap();
        assert_eq!(found.issuers, ["https://a", "https://b"]);
        assert_eq!(found.audiences(), ["x", "y"]);
        assert_eq!(found.max_expiration, Some(Duration::from_mins(90)));
        assert!(!found.extends_expiration);
        assert!(settings(&["--service-account-max-token-expiration=soon"]).is_err());
    }

    #[test]
    fn the_error_of_a_missing_key_names_the_flag() {
        for flag in ["--service-account-signing-key-file", "--service-account-key-file"] {
            let error = settings(&[&format!("{flag}=/nowhere")]).unwrap_err();
            assert!(error.to_string().ends_with(flag), "{error}");
        }
    }
}
