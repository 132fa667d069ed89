//! [`AuthorizationArgs`]: the flags that say who may do what.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::start_error;
use crate::duration_arg::parse_duration;
use apiserver::AuthorizerConfig;
use apiserver::auth::authorization::abac::PolicyFile;
use apiserver::auth::authorization::always::{AlwaysAllow, AlwaysDeny};
use apiserver::auth::authorization::configuration::AuthorizationFile;
use apiserver::auth::authorization::webhook::{
    FailurePolicy, MatchConditions, WebhookAuthorizerSettings,
};
use apiserver::outbound::review_client::ReviewVersion;
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;

/// The name of the webhook of the flags. The value is kube-apiserver's.
const WEBHOOK_NAME: &str = "default";

/// The time limit of a call of the webhook of the flags. The value is kube-apiserver's.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
pub(crate) struct AuthorizationArgs {
    /// Who may do what, besides the group `system:masters`. The first mode with an opinion decides:
    /// `Node` lets a node read what its own pods refer to, `RBAC` decides by roles and bindings, `ABAC`
    /// by a policy file, `Webhook` asks another server; and there are `AlwaysAllow` and `AlwaysDeny`
    /// [default: Node,RBAC]
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    authorization_mode: Vec<AuthorizationMode>,
    /// File of policies for the mode `ABAC`, which is the first one unless `--authorization-mode` names
    /// it, in kube-apiserver's format: one JSON object per line
    #[arg(long, value_name = "FILE")]
    authorization_policy_file: Option<PathBuf>,
    /// Kubeconfig of the server that the mode `Webhook` asks, with a `SubjectAccessReview`
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// Version of authorization.k8s.io in which that server is asked: v1 or v1beta1 [default: v1beta1]
    #[arg(long, value_name = "VERSION")]
    authorization_webhook_version: Option<ReviewVersion>,
    /// Time for which answers of that server that allow a request are used again; 0 for none
    /// [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// Time for which its other answers are used again; 0 for none [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
    /// File with an `AuthorizationConfiguration`, which names the authorizers instead of
    /// `--authorization-mode`, among them servers with match conditions; it is read again when it
    /// changes
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,
}

/// An authorizer, by kube-apiserver's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuthorizationMode {
    #[value(name = "Node")]
    Node,
    #[value(name = "RBAC")]
    Rbac,
    #[value(name = "ABAC")]
    Abac,
    #[value(name = "Webhook")]
    Webhook,
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "AlwaysDeny")]
    AlwaysDeny,
}

impl AuthorizationArgs {
    /// Whether `--authorization-mode` names the mode `AlwaysAllow`.
    pub(super) fn allows_all(&self) -> bool {
        self.authorization_mode.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// The authorizers of the file or of the modes. A file of policies without the mode `ABAC` comes
    /// first.
    pub(super) fn authorizers(&self) -> Result<Vec<AuthorizerConfig>> {
        if let Some(path) = &self.authorization_config {
            return Ok(vec![AuthorizerConfig::File(Arc::new(self.file(path)?))]);
        }
        let mut modes = self.authorization_mode.clone();
        if modes.is_empty() {
            modes = vec![AuthorizationMode::Node, AuthorizationMode::Rbac];
        }
        if self.authorization_policy_file.is_some() && !modes.contains(&AuthorizationMode::Abac) {
            modes.insert(0, AuthorizationMode::Abac);
        }
        if self.has_webhook_flags() && !modes.contains(&AuthorizationMode::Webhook) {
            bail!("cannot specify --authorization-webhook-* flags without mode Webhook");
        }
        let mut authorizers = Vec::new();
        for (index, mode) in modes.iter().enumerate() {
            if modes[..index].contains(mode) {
                bail!("--authorization-mode names a mode twice");
            }
            authorizers.push(match mode {
                AuthorizationMode::Node => AuthorizerConfig::Node,
                AuthorizationMode::Rbac => AuthorizerConfig::Rbac,
                AuthorizationMode::AlwaysAllow => Arc::new(AlwaysAllow).into(),
                AuthorizationMode::AlwaysDeny => Arc::new(AlwaysDeny).into(),
                AuthorizationMode::Abac => {
                    let policies = self.policies()?;
                    let why = "name a file of policies with --authorization-policy-file";
                    policies.context(why)?.into()
                }
                AuthorizationMode::Webhook => AuthorizerConfig::Webhook(Box::new(self.webhook()?)),
            });
        }
        Ok(authorizers)
    }

    fn has_webhook_flags(&self) -> bool {
        self.authorization_webhook_config_file.is_some()
            || self.authorization_webhook_version.is_some()
            || self.authorization_webhook_cache_authorized_ttl.is_some()
            || self.authorization_webhook_cache_unauthorized_ttl.is_some()
    }

    fn file(&self, path: &Path) -> Result<AuthorizationFile> {
        if !self.authorization_mode.is_empty() || self.has_webhook_flags() {
            bail!(
                "--authorization-config can not be specified when --authorization-mode or \
                 --authorization-webhook-* flags are defined"
            );
        }
        let file = AuthorizationFile::read(path, self.policies()?)
            .context("name a valid file with --authorization-config")?;
        if self.authorization_policy_file.is_some() && !file.has_policies() {
            bail!("cannot specify --authorization-policy-file without mode ABAC");
        }
        Ok(file)
    }

    fn policies(&self) -> Result<Option<Arc<PolicyFile>>> {
        let Some(path) = &self.authorization_policy_file else { return Ok(None) };
        let policies = PolicyFile::read(path).map_err(start_error::explain_policy_file)?;
        Ok(Some(Arc::new(policies)))
    }

    fn webhook(&self) -> Result<WebhookAuthorizerSettings> {
        const REMEDY: &str =
            "name a kubeconfig that can be used with --authorization-webhook-config-file";
        let path = self.authorization_webhook_config_file.as_ref().context(REMEDY)?;
        let endpoint = WebhookEndpoint::read(path).context(REMEDY)?;
        let version = self.authorization_webhook_version.unwrap_or(ReviewVersion::V1beta1);
        let authorized_ttl = self.authorization_webhook_cache_authorized_ttl;
        let unauthorized_ttl = self.authorization_webhook_cache_unauthorized_ttl;
        Ok(WebhookAuthorizerSettings {
            name: WEBHOOK_NAME.to_owned(),
            endpoint,
            version,
            timeout: WEBHOOK_TIMEOUT,
            authorized_ttl: authorized_ttl.unwrap_or(Duration::from_mins(5)),
            unauthorized_ttl: unauthorized_ttl.unwrap_or(Duration::from_secs(30)),
            failure_policy: FailurePolicy::NoOpinion,
            match_conditions: MatchConditions::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const KUBECONFIG: &str = r#"{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://a", "insecure-skip-tls-verify": true}}]}"#;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: AuthorizationArgs,
    }

    fn authorizers(flags: &[&str]) -> Result<Vec<AuthorizerConfig>> {
        Line::try_parse_from([&["up"], flags].concat())?.args.authorizers()
    }

    fn error(flags: &[&str]) -> String {
        authorizers(flags).unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_nodes_and_roles() {
        let found = authorizers(&[]).unwrap();
        assert!(matches!(found.as_slice(), [AuthorizerConfig::Node, AuthorizerConfig::Rbac]));
        assert_eq!(
            error(&["--authorization-mode=RBAC,RBAC"]),
            "--authorization-mode names a mode twice"
        );
    }

    #[test]
    fn the_mode_webhook_needs_a_kubeconfig() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        std::fs::write(&path, KUBECONFIG).unwrap();
        let mode = "--authorization-mode=RBAC,Webhook";
        let file = format!("--authorization-webhook-config-file={}", path.display());
        let webhook = |flags: &[&str]| match authorizers(flags).unwrap().pop() {
            Some(AuthorizerConfig::Webhook(settings)) => settings,
            other => panic!("{other:?}"),
        };
        let found = webhook(&[mode, &file]);
        assert_eq!((found.name.as_str(), found.version), ("default", ReviewVersion::V1beta1));
        assert_eq!(found.authorized_ttl, Duration::from_mins(5));
        assert_eq!(found.unauthorized_ttl, Duration::from_secs(30));
        let found = webhook(&[
            mode,
            &file,
            "--authorization-webhook-version=v1",
            "--authorization-webhook-cache-authorized-ttl=0s",
            "--authorization-webhook-cache-unauthorized-ttl=1s",
        ]);
        assert_eq!((found.version, found.authorized_ttl), (ReviewVersion::V1, Duration::ZERO));
        assert_eq!(found.unauthorized_ttl, Duration::from_secs(1));
        assert!(error(&[mode]).ends_with("--authorization-webhook-config-file"));
        assert!(error(&[&file]).ends_with("without mode Webhook"));
    }

    #[test]
    fn a_configuration_file_excludes_the_other_flags() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
        let roles = write("roles", &format!("{head}authorizers: [{{type: RBAC, name: rbac}}]"));
        let file = format!("--authorization-config={roles}");
        assert!(matches!(authorizers(&[&file]).unwrap().as_slice(), [AuthorizerConfig::File(_)]));
        let excluded = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined";
        assert_eq!(error(&[&file, "--authorization-mode=RBAC"]), excluded);
        assert_eq!(error(&[&file, "--authorization-webhook-version=v1"]), excluded);
        let policies = format!("--authorization-policy-file={}", write("policies", ""));
        assert!(error(&[&file, &policies]).ends_with("without mode ABAC"));
        let abac = write("abac", &format!("{head}authorizers: [{{type: ABAC, name: abac}}]"));
        let abac = format!("--authorization-config={abac}");
        assert!(authorizers(&[&abac, &policies]).is_ok());
        let missing = format!("{:#}", authorizers(&[&abac]).unwrap_err());
        assert!(missing.ends_with("authorization policy file not passed"), "{missing}");
        assert!(error(&["--authorization-config=/nowhere"]).ends_with("--authorization-config"));
    }
}
