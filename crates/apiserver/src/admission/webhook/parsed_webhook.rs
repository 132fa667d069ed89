//! [`ParsedWebhook`]: one webhook of a configuration, parsed and compiled.

use std::time::Duration;

use super::match_conditions::MatchConditions;
use super::review::ReviewVersion;
use crate::admission::matching::MatchCriteria;
use crate::outbound::ClientConfig;
use machinery::{Object, Status, Value};

/// The timeout of a webhook whose configuration sets none.
const TIMEOUT_SECONDS: u64 = 10;

/// See the [module documentation](self).
pub(super) struct ParsedWebhook {
    /// The name of the webhook, for messages and metrics.
    pub name: String,
    /// The name of the webhook configuration.
    pub configuration: String,
    /// The rules and selectors of the webhook.
    pub criteria: MatchCriteria,
    /// The conditions that restrict the matched requests.
    pub match_conditions: MatchConditions,
    /// The version of `AdmissionReview` for calls; None if the webhook supports no known one.
    pub review_version: Option<ReviewVersion>,
    /// Whether a failed call is ignored.
    pub fails_open: bool,
    /// Whether the webhook is called again if the object changes after its call.
    pub reinvoke_if_needed: bool,
    /// The timeout of a call.
    pub timeout: Duration,
    /// Whether the webhook has no side effects for dry runs.
    supports_dry_run: bool,
    /// The address and the CA bundle of the webhook.
    pub client: ClientConfig,
}

impl ParsedWebhook {
    /// All webhooks of a configuration.
    pub(super) fn all_of(configuration: &Object) -> Vec<Self> {
        let webhooks = configuration.get(&["webhooks"]).and_then(Value::as_array);
        webhooks.into_iter().flatten().map(|it| Self::of(configuration.name(), it)).collect()
    }

    fn of(configuration: &str, webhook: &Value) -> Self {
        let versions = webhook["admissionReviewVersions"].as_array().into_iter().flatten();
        let fails_open = webhook["failurePolicy"] == "Ignore";
        Self {
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            configuration: configuration.to_owned(),
            criteria: MatchCriteria::of_webhook(webhook),
            match_conditions: MatchConditions::of(webhook, fails_open),
            review_version: versions.filter_map(Value::as_str).find_map(ReviewVersion::parse),
            supports_dry_run: webhook["sideEffects"] == "None"
                || webhook["sideEffects"] == "NoneOnDryRun",
            fails_open,
            reinvoke_if_needed: webhook["reinvocationPolicy"] == "IfNeeded",
            timeout: Duration::from_secs(
                webhook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS),
            ),
            client: ClientConfig::from_value(&webhook["clientConfig"]),
        }
    }

    /// Rejects a dry run if the webhook has side effects.
    pub(super) fn check_dry_run(&self, dry_run: bool) -> Result<(), Status> {
        if !dry_run || self.supports_dry_run {
            return Ok(());
        }
        let why = format!("admission webhook {:?} does not support dry run", self.name);
        Err(Status::bad_request(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn a_webhook_with_side_effects_rejects_dry_runs() {
        for (effects, dry_run, rejected) in [
            ("None", true, false),
            ("NoneOnDryRun", true, false),
            ("Some", true, true),
            ("Unknown", true, true),
            ("Some", false, false),
        ] {
            let webhook = ParsedWebhook::of("c", &json!({"name": "a.b.c", "sideEffects": effects}));
            let message = "admission webhook \"a.b.c\" does not support dry run";
            let found =
                webhook.check_dry_run(dry_run).map_err(|status| (status.code, status.message));
            let expected = if rejected { Err((400, message.to_owned())) } else { Ok(()) };
            assert_eq!(found, expected, "{effects}");
        }
    }
}
