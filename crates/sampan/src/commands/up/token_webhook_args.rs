//! [`TokenWebhookArgs`]: the flags for a server that is asked about tokens.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::duration_arg::parse_duration;
use apiserver::auth::authentication::token_webhook::TokenWebhookSettings;
use apiserver::outbound::review_client::ReviewVersion;
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
pub(crate) struct TokenWebhookArgs {
    /// Kubeconfig of a server that is asked, with a `TokenReview`, about the tokens which this one does
    /// not accept itself
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// Version of authentication.k8s.io in which that server is asked: v1 or v1beta1
    #[arg(long, value_name = "VERSION", default_value = "v1beta1")]
    authentication_token_webhook_version: ReviewVersion,
    /// Time for which the answers of that server are used again; 0 for none
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    authentication_token_webhook_cache_ttl: Duration,
}

impl TokenWebhookArgs {
    /// Reads the kubeconfig; None if there is none.
    pub(super) fn settings(&self) -> Result<Option<TokenWebhookSettings>> {
        let Some(path) = &self.authentication_token_webhook_config_file else { return Ok(None) };
        let endpoint = WebhookEndpoint::read(path).context(
            "name a kubeconfig that can be used with --authentication-token-webhook-config-file",
        )?;
        let version = self.authentication_token_webhook_version;
        let cache_ttl = self.authentication_token_webhook_cache_ttl;
        Ok(Some(TokenWebhookSettings { endpoint, version, cache_ttl }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: TokenWebhookArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<TokenWebhookSettings>> {
        Line::try_parse_from([&["up"], flags].concat())?.args.settings()
    }

    #[test]
    fn flags_have_the_forms_and_defaults_of_kube_apiserver() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let config = r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://a", "insecure-skip-tls-verify": true}}]}"#;
        std::fs::write(&path, config).unwrap();
        let file = format!("--authentication-token-webhook-config-file={}", path.display());
        let found = settings(&[&file]).unwrap().unwrap();
        assert_eq!(
            (found.version, found.cache_ttl),
            (ReviewVersion::V1beta1, Duration::from_mins(2))
        );
        let flags = [
            &file,
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=0s",
        ];
        let found = settings(&flags).unwrap().unwrap();
        assert_eq!((found.version, found.cache_ttl), (ReviewVersion::V1, Duration::ZERO));
        assert!(settings(&[]).unwrap().is_none());
        assert!(settings(&["--authentication-token-webhook-version=v2"]).is_err());
        let error = settings(&["--authentication-token-webhook-config-file=/nowhere"]).unwrap_err();
        assert!(
            error.to_string().ends_with("--authentication-token-webhook-config-file"),
            "{error}"
        );
    }
}
