//! [`AuditAnnotations`]: what a webhook did to a request, in the audit event of the request.

use serde::Serialize;
use serde_json::value::RawValue;

use super::metrics::WebhookType;
use super::parsed_webhook::ParsedWebhook;
use crate::audit::AuditContext;
use crate::audit::policy::Level;
use crate::registry::scope::RequestScope;
use machinery::codec::json;

/// See the [module documentation](self).
pub(super) struct AuditAnnotations<'a> {
    audit: &'a AuditContext,
    webhook: &'a ParsedWebhook,
    /// The round of calls and the index of the webhook in it.
    position: String,
}

/// The value of an annotation about the changes of a webhook.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MutationAnnotation<'a> {
    configuration: &'a str,
    webhook: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mutated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'a str>,
}

impl<'a> AuditAnnotations<'a> {
    /// The annotations of a webhook; None if the request is not audited.
    pub(super) fn new(
        scope: &'a RequestScope,
        webhook: &'a ParsedWebhook,
        round: usize,
        index: usize,
    ) -> Option<Self> {
        let audit = scope.audit.as_deref()?;
        Some(Self { audit, webhook, position: format!("round_{round}_index_{index}") })
    }

    /// The call failed, and its failure is ignored.
    pub(super) fn add_failed_open(&self, webhook_type: WebhookType) {
        let kind = match webhook_type {
            WebhookType::Mutating => "mutation",
            WebhookType::Validating => "validating",
        };
        let key = format!("failed-open.{kind}.webhook.admission.k8s.io/{}", self.position);
        self.audit.annotate(&key, &self.webhook.name);
    }

    /// The webhook changed the object, or not.
    pub(super) fn add_mutation(&self, mutated: bool) {
        let value = MutationAnnotation { mutated: Some(mutated), ..self.value() };
        self.add("mutation", &value);
    }

    /// Whether patches are recorded. They contain data of the object.
    pub(super) fn records_patches(&self) -> bool {
        self.audit.level() >= Level::Request
    }

    /// The patch that the webhook sent.
    pub(super) fn add_patch(&self, patch: &[u8]) {
        let Ok(patch) = serde_json::from_slice::<&RawValue>(patch) else { return };
        let value = MutationAnnotation {
            patch: Some(patch),
            patch_type: Some("JSONPatch"),
            ..self.value()
        };
        self.add("patch", &value);
    }

    fn value(&self) -> MutationAnnotation<'_> {
        MutationAnnotation {
            configuration: &self.webhook.configuration,
            webhook: &self.webhook.name,
            mutated: None,
            patch: None,
            patch_type: None,
        }
    }

    fn add(&self, kind: &str, value: &MutationAnnotation<'_>) {
        let key = format!("{kind}.webhook.admission.k8s.io/{}", self.position);
        let mut text = Vec::new();
        json::write(&mut text, value);
        self.audit.annotate(&key, &String::from_utf8_lossy(&text));
    }
}
