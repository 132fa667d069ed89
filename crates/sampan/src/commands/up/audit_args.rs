//! [`AuditArgs`]: the flags for the record of requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::duration_arg::parse_duration;
use apiserver::audit::policy::Policy;
use apiserver::audit::{
    AuditSettings, BatchSettings, Delivery, LogFormat, LogSettings, Mode, Throttle, Truncation,
    WebhookSettings,
};
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;

/// See the [module documentation](self).
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
pub(crate) struct AuditArgs {
    /// File with the audit policy (`audit.k8s.io/v1`): which requests are recorded and how much of
    /// them. Without it nothing is recorded
    #[arg(long, value_name = "FILE")]
    audit_policy_file: Option<PathBuf>,
    #[command(flatten)]
    log: AuditLogArgs,
    #[command(flatten)]
    webhook: AuditWebhookArgs,
}

/// The flags of the file of events.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
struct AuditLogArgs {
    /// File to which events are appended, one per line; `-` is the standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_log_path: Option<PathBuf>,
    /// Format of the lines: `json`, or `legacy`, which is text without objects
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    audit_log_format: AuditLogFormat,
    /// Days for which rotated files are kept; 0 keeps them
    #[arg(long, value_name = "DAYS", default_value_t = 0)]
    audit_log_maxage: u64,
    /// Number of rotated files that are kept; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_maxbackup: usize,
    /// Megabytes at which the file is rotated; 0 stands for 100
    #[arg(long, value_name = "MB", default_value_t = 0)]
    audit_log_maxsize: u64,
    /// Whether requests wait until their events are written: `blocking` waits, `blocking-strict` also
    /// refuses a request whose first event cannot be written, `batch` buffers events, and drops and
    /// counts those that do not fit
    #[arg(long, value_name = "MODE", default_value = "blocking")]
    audit_log_mode: AuditMode,
    /// Number of events in the buffer of the mode `batch`
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    audit_log_batch_buffer_size: usize,
    /// Maximum number of events that are written at once in the mode `batch`
    #[arg(long, value_name = "N", default_value_t = 1)]
    audit_log_batch_max_size: usize,
    /// Maximum time for which a batch that is not full waits for more events
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    audit_log_batch_max_wait: Duration,
    /// Whether the rate of batches is limited
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_log_batch_throttle_enable: bool,
    /// Maximum average number of batches per second
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    audit_log_batch_throttle_qps: f32,
    /// Maximum number of batches at once after a pause
    #[arg(long, value_name = "N", default_value_t = 0)]
    audit_log_batch_throttle_burst: usize,
    /// Whether events and batches that are too large are truncated
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_log_truncate_enabled: bool,
    /// Maximum size of a batch in bytes; a larger one is split
    #[arg(long, value_name = "BYTES", default_value_t = 10_485_760)]
    audit_log_truncate_max_batch_size: usize,
    /// Maximum size of an event in bytes; a larger one loses its objects, and is dropped and counted
    /// if it is still too large
    #[arg(long, value_name = "BYTES", default_value_t = 102_400)]
    audit_log_truncate_max_event_size: usize,
}

/// The flags of the webhook.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_field_names, reason = "the fields have the names of the flags")]
struct AuditWebhookArgs {
    /// File in the format of a kubeconfig that names the server to which events are sent
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    audit_webhook_config_file: Option<PathBuf>,
    /// Time before a failed call of the webhook is repeated
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    audit_webhook_initial_backoff: Duration,
    /// Whether requests wait until the webhook has their events, as in `--audit-log-mode`
    #[arg(long, value_name = "MODE", default_value = "batch")]
    audit_webhook_mode: AuditMode,
    /// Number of events in the buffer of the mode `batch`
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    audit_webhook_batch_buffer_size: usize,
    /// Maximum number of events in a batch
    #[arg(long, value_name = "N", default_value_t = 400)]
    audit_webhook_batch_max_size: usize,
    /// Maximum time for which a batch that is not full waits for more events
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    audit_webhook_batch_max_wait: Duration,
    /// Whether the rate of batches is limited
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_webhook_batch_throttle_enable: bool,
    /// Maximum average number of batches per second
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    audit_webhook_batch_throttle_qps: f32,
    /// Maximum number of batches at once after a pause
    #[arg(long, value_name = "N", default_value_t = 15)]
    audit_webhook_batch_throttle_burst: usize,
    /// Whether events and batches that are too large are truncated
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    audit_webhook_truncate_enabled: bool,
    /// Maximum size of a batch in bytes; a larger one is split
    #[arg(long, value_name = "BYTES", default_value_t = 10_485_760)]
    audit_webhook_truncate_max_batch_size: usize,
    /// Maximum size of an event in bytes; a larger one loses its objects, and is dropped and counted
    /// if it is still too large
    #[arg(long, value_name = "BYTES", default_value_t = 102_400)]
    audit_webhook_truncate_max_event_size: usize,
}

/// See [`LogFormat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuditLogFormat {
    Legacy,
    Json,
}

/// See [`Mode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuditMode {
    Batch,
    Blocking,
    BlockingStrict,
}

impl AuditArgs {
    /// Reads the files of policy and webhook; None if nothing is recorded.
    pub(super) fn settings(&self) -> Result<Option<AuditSettings>> {
        let Some(path) = &self.audit_policy_file else { return Ok(None) };
        let policy = Policy::read(path)
            .context("loading audit policy file: name a valid one with --audit-policy-file")?;
        let (log, webhook) = (self.log.settings()?, self.webhook.settings()?);
        if log.is_none() && webhook.is_none() {
            bail!(
                "--audit-policy-file has no effect alone: name a file with --audit-log-path or a \
                 webhook with --audit-webhook-config-file"
            );
        }
        Ok(Some(AuditSettings { policy: Arc::new(policy), log, webhook }))
    }
}

impl AuditLogArgs {
    fn settings(&self) -> Result<Option<LogSettings>> {
        let Some(path) = self.audit_log_path.clone() else { return Ok(None) };
        let throttle = Throttle {
            qps: self.audit_log_batch_throttle_qps,
            burst: self.audit_log_batch_throttle_burst,
        };
        let batch = BatchSettings {
            buffer_size: self.audit_log_batch_buffer_size,
            max_size: self.audit_log_batch_max_size,
            max_wait: self.audit_log_batch_max_wait,
            throttle: self.audit_log_batch_throttle_enable.then_some(throttle),
        };
        let limits = Truncation {
            max_batch_size: self.audit_log_truncate_max_batch_size,
            max_event_size: self.audit_log_truncate_max_event_size,
        };
        validate("log", limits)?;
        let truncation = self.audit_log_truncate_enabled.then_some(limits);
        Ok(Some(LogSettings {
            path,
            max_size: self.audit_log_maxsize,
            max_backups: self.audit_log_maxbackup,
            max_age: self.audit_log_maxage,
            format: match self.audit_log_format {
                AuditLogFormat::Legacy => LogFormat::Legacy,
                AuditLogFormat::Json => LogFormat::Json,
            },
            delivery: delivery("log", self.audit_log_mode, batch, truncation)?,
        }))
    }
}

impl AuditWebhookArgs {
    fn settings(&self) -> Result<Option<WebhookSettings>> {
        let Some(path) = &self.audit_webhook_config_file else { return Ok(None) };
        let throttle = Throttle {
            qps: self.audit_webhook_batch_throttle_qps,
            burst: self.audit_webhook_batch_throttle_burst,
        };
        let batch = BatchSettings {
            buffer_size: self.audit_webhook_batch_buffer_size,
            max_size: self.audit_webhook_batch_max_size,
            max_wait: self.audit_webhook_batch_max_wait,
            throttle: self.audit_webhook_batch_throttle_enable.then_some(throttle),
        };
        let limits = Truncation {
            max_batch_size: self.audit_webhook_truncate_max_batch_size,
            max_event_size: self.audit_webhook_truncate_max_event_size,
        };
        validate("webhook", limits)?;
        let truncation = self.audit_webhook_truncate_enabled.then_some(limits);
        Ok(Some(WebhookSettings {
            endpoint: WebhookEndpoint::read(path).context("initializing audit webhook")?,
            initial_backoff: self.audit_webhook_initial_backoff,
            delivery: delivery("webhook", self.audit_webhook_mode, batch, truncation)?,
        }))
    }
}

/// Upstream: the limits are validated even if they have no effect.
fn validate(plugin: &str, limits: Truncation) -> Result<()> {
    let Truncation { max_batch_size, max_event_size } = limits;
    if max_event_size == 0 {
        bail!("invalid audit truncate {plugin} max event size 0, must be a positive number");
    }
    if max_batch_size < max_event_size {
        bail!(
            "invalid audit truncate {plugin} max batch size {max_batch_size}, must be greater than \
             max event size ({max_event_size})"
        );
    }
    Ok(())
}

/// Upstream: `validateBackendBatchOptions`. The limits of batches count in the mode `batch` only.
fn delivery(
    plugin: &str,
    mode: AuditMode,
    batch: BatchSettings,
    truncation: Option<Truncation>,
) -> Result<Delivery> {
    let mode = match mode {
        AuditMode::Batch => Mode::Batch,
        AuditMode::Blocking => Mode::Blocking,
        AuditMode::BlockingStrict => Mode::BlockingStrict,
    };
    if mode == Mode::Batch {
        let positive = "must be a positive number";
        if batch.buffer_size == 0 {
            bail!("invalid audit batch {plugin} buffer size 0, {positive}");
        }
        if batch.max_size == 0 {
            bail!("invalid audit batch {plugin} max batch size 0, {positive}");
        }
        if let Some(Throttle { qps, burst }) = batch.throttle {
            if qps.is_nan() || qps <= 0.0 {
                bail!("invalid audit batch {plugin} throttle QPS {qps}, {positive}");
            }
            if burst == 0 {
                bail!("invalid audit batch {plugin} throttle burst 0, {positive}");
            }
        }
    }
    Ok(Delivery { mode, batch, truncation })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: AuditArgs,
    }

    /// The settings of flags with a policy file, or the error with its causes.
    fn settings(rules: &str, flags: &[&str]) -> Result<Option<AuditSettings>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.yaml");
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}\n");
        std::fs::write(&path, text).unwrap();
        let policy = format!("--audit-policy-file={}", path.display());
        let line = Line::try_parse_from([&["up", &policy], flags].concat());
        let line = line.map_err(|error| error.to_string())?;
        line.args.settings().map_err(|error| format!("{error:#}"))
    }

    const ALL: &str = "[{level: Metadata}]";

    #[test]
    fn flags_have_the_forms_and_defaults_of_kube_apiserver() {
        let found = settings(ALL, &["--audit-log-path=-", "--audit-log-maxsize=3"]);
        let log = found.unwrap().unwrap().log.unwrap();
        assert_eq!((log.max_size, &log.delivery), (3, &Delivery::of_log()));
        let flags = [
            "--audit-log-path=-",
            "--audit-log-mode=batch",
            "--audit-log-batch-max-size=50",
            "--audit-log-batch-max-wait=1m30s",
            "--audit-log-batch-throttle-enable",
            "--audit-log-batch-throttle-qps=2.5",
            "--audit-log-batch-throttle-burst=3",
        ];
        let log = settings(ALL, &flags).unwrap().unwrap().log.unwrap();
        let throttle = Some(Throttle { qps: 2.5, burst: 3 });
        let max_wait = Duration::from_secs(90);
        let batch = BatchSettings { buffer_size: 10_000, max_size: 50, max_wait, throttle };
        let batches = Delivery { mode: Mode::Batch, batch, truncation: None };
        assert_eq!(log.delivery, batches);
        let flags =
            ["--audit-log-path=-", "--audit-log-format=legacy", "--audit-log-truncate-enabled"];
        let log = settings(ALL, &flags).unwrap().unwrap().log.unwrap();
        let limits = Truncation { max_batch_size: 10 << 20, max_event_size: 100 << 10 };
        assert_eq!((log.format, log.delivery.truncation), (LogFormat::Legacy, Some(limits)));
        let args = Line::try_parse_from(["up"]).unwrap().args;
        assert!(args.settings().unwrap().is_none());
    }

    #[test]
    fn flags_that_cannot_work_are_refused() {
        let error = |flags: &[&str]| settings(ALL, flags).unwrap_err();
        assert!(error(&[]).contains("--audit-log-path"));
        let log = "--audit-log-path=-";
        let batch = "--audit-log-mode=batch";
        assert_eq!(
            error(&[log, batch, "--audit-log-batch-buffer-size=0"]),
            "invalid audit batch log buffer size 0, must be a positive number"
        );
        assert_eq!(
            error(&[log, batch, "--audit-log-batch-throttle-enable"]),
            "invalid audit batch log throttle QPS 0, must be a positive number"
        );
        assert_eq!(
            error(&[log, "--audit-log-truncate-max-event-size=0"]),
            "invalid audit truncate log max event size 0, must be a positive number"
        );
        assert_eq!(
            error(&[log, "--audit-log-truncate-max-batch-size=9"]),
            "invalid audit truncate log max batch size 9, must be greater than max event size (102400)"
        );
        assert!(error(&[log, "--audit-log-format=xml"]).contains("possible values"));
        assert!(error(&[log, "--audit-log-mode=fast"]).contains("possible values"));
        assert!(error(&["--audit-webhook-config-file=/no/such"]).contains("/no/such"));
        assert!(Line::try_parse_from(["up", log]).is_err(), "there is no policy");
        assert!(settings("[]", &[log]).unwrap_err().contains("illegal policy with 0 rules"));
    }
}
