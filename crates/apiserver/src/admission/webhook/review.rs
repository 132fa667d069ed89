//! `AdmissionReview`: encodes the request for a webhook, and decodes and verifies its response.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::call::CallError;
use super::metrics::WebhookType;
use machinery::status::{Cause, Details};
use machinery::{Reason, Status, Value, codec, json};
use types::Ordered;

/// The supported versions of `AdmissionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    /// Upstream: the uid, the type and the patch type of responses in this version are not
    /// verified.
    V1beta1,
}

impl ReviewVersion {
    /// The version of this name; None if it is not supported.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }

    /// Encodes a review with this request.
    pub(super) fn encode_request(self, request: Value) -> Vec<u8> {
        let mut review = json!({"kind": "AdmissionReview", "apiVersion": self.api_version()});
        review["request"] = request;
        let mut body = Vec::new();
        codec::json::write(&mut body, &Ordered::document(&review));
        body
    }

    /// Decodes and verifies the response to the review with this uid.
    pub(super) fn decode_response(
        self,
        webhook_type: WebhookType,
        uid: &str,
        body: &[u8],
    ) -> Result<ReviewResponse, CallError> {
        let decoded = codec::json::decode(body).map_err(|error| {
            let why = format!("couldn't get version/kind; json parse error: {error}");
            CallError::Failed(why)
        })?;
        let answer: AdmissionReview = serde_json::from_value(decoded.value)
            .map_err(|error| CallError::Failed(format!("cannot read the answer: {error}")))?;
        self.verify(webhook_type, uid, answer).map_err(CallError::Invalid)
    }

    fn verify(
        self,
        webhook_type: WebhookType,
        uid: &str,
        answer: AdmissionReview,
    ) -> Result<ReviewResponse, String> {
        let Some(response) = answer.response else {
            return Err("webhook response was absent".to_owned());
        };
        let patch = response.patch.as_deref().unwrap_or_default();
        let patch =
            STANDARD.decode(patch).map_err(|error| format!("illegal base64 data: {error}"))?;
        let patch_type = response.patch_type;
        if self == Self::V1 {
            let found = response.uid.unwrap_or_default();
            if found != uid {
                return Err(format!("expected response.uid={uid:?}, got {found:?}"));
            }
            let (expected, found) = (self.api_version(), answer.api_version.unwrap_or_default());
            let found_kind = answer.kind.unwrap_or_default();
            if found != expected || found_kind != "AdmissionReview" {
                let found = if found.is_empty() { "/" } else { &found };
                return Err(format!(
                    "expected webhook response of {expected}, Kind=AdmissionReview, got {found}, Kind={found_kind}"
                ));
            }
            check_patch(webhook_type, &patch, patch_type.as_deref())?;
        }
        let patch = match webhook_type {
            WebhookType::Mutating => patch,
            WebhookType::Validating => Vec::new(),
        };
        Ok(ReviewResponse {
            allowed: response.allowed.unwrap_or_default(),
            result: response.status.unwrap_or_default(),
            warnings: response.warnings.unwrap_or_default(),
            annotations: response.audit_annotations.unwrap_or_default(),
            patch,
            patch_type: patch_type.filter(|_| self == Self::V1),
        })
    }
}

fn check_patch(
    webhook_type: WebhookType,
    patch: &[u8],
    patch_type: Option<&str>,
) -> Result<(), String> {
    let message = match (webhook_type, patch.is_empty(), patch_type) {
        (WebhookType::Validating, false, _) => "validating webhook may not return response.patch",
        (WebhookType::Validating, true, Some(_)) => {
            "validating webhook may not return response.patchType"
        }
        (WebhookType::Mutating, false, None) => {
            "webhook returned response.patch but not response.patchType"
        }
        (WebhookType::Mutating, true, Some(_)) => {
            "webhook returned response.patchType but not response.patch"
        }
        (WebhookType::Mutating, false, Some("")) => {
            "webhook returned invalid response.patchType of \"\""
        }
        _ => return Ok(()),
    };
    Err(message.to_owned())
}

/// A review as a webhook sends it. Go decodes null as an absent value.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionReview {
    api_version: Option<String>,
    kind: Option<String>,
    response: Option<AdmissionResponse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionResponse {
    uid: Option<String>,
    allowed: Option<bool>,
    status: Option<RejectionStatus>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: Option<BTreeMap<String, String>>,
    warnings: Option<Vec<String>>,
}

/// A verified response.
#[derive(Debug)]
pub(super) struct ReviewResponse {
    /// Whether the webhook allows the request.
    pub allowed: bool,
    /// The status of a rejection.
    pub result: RejectionStatus,
    /// The warnings for the client.
    pub warnings: Vec<String>,
    /// The audit annotations.
    pub annotations: BTreeMap<String, String>,
    /// The patch in JSON; empty if the webhook does not change the object.
    pub patch: Vec<u8>,
    /// The type of the patch, in v1 only.
    pub patch_type: Option<String>,
}

/// The Status in a response that rejects the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RejectionStatus {
    code: Option<i64>,
    reason: Option<String>,
    message: Option<String>,
    details: Option<RejectionDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RejectionDetails {
    name: Option<String>,
    group: Option<String>,
    kind: Option<String>,
    uid: Option<String>,
    causes: Option<Vec<RejectionCause>>,
    retry_after_seconds: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RejectionCause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

impl RejectionStatus {
    /// The Status for the client. A code that is not an error code is replaced by 400.
    pub(super) fn into_status(self, webhook: &str) -> Status {
        let message = self.message.filter(|it| !it.is_empty());
        let reason = self.reason.filter(|it| !it.is_empty());
        let why = match (message, &reason) {
            (Some(why), _) => format!(": {why}"),
            (None, Some(reason)) => format!(": {reason}"),
            (None, None) => " without explanation".to_owned(),
        };
        let message = format!("admission webhook {webhook:?} denied the request{why}");
        let code = match self.code.unwrap_or_default() {
            code @ 400..=599 => u16::try_from(code).expect("a code below 600 fits"),
            code if code >= 600 => 500,
            _ => 400,
        };
        let mut status = Status::new(code, Reason::Unknown, message);
        status.custom_reason = reason.map(Into::into);
        status.details = self.details.map(|it| Box::new(it.into_details()));
        status
    }
}

impl RejectionDetails {
    fn into_details(self) -> Details {
        let causes = self.causes.unwrap_or_default().into_iter().map(|it| Cause {
            reason: it.reason.unwrap_or_default(),
            message: it.message.unwrap_or_default(),
            field: it.field.unwrap_or_default(),
        });
        Details {
            name: self.name.unwrap_or_default(),
            group: self.group.unwrap_or_default(),
            kind: self.kind.unwrap_or_default(),
            uid: self.uid.unwrap_or_default(),
            causes: causes.collect(),
            retry_after_seconds: self.retry_after_seconds.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        version: ReviewVersion,
        webhook_type: WebhookType,
        answer: &Value,
    ) -> Result<ReviewResponse, String> {
        let body = answer.to_string();
        version
            .decode_response(webhook_type, "u", body.as_bytes())
            .map_err(|error| error.to_string())
    }

    fn v1(response: &Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    /// Compares the error of a v1 response.
    fn check(webhook_type: WebhookType, response: &Value, expect: &str) {
        let why = read(ReviewVersion::V1, webhook_type, &v1(response)).unwrap_err();
        assert_eq!(why, format!("received invalid webhook response: {expect}"));
    }

    #[test]
    fn a_review_has_its_fields_in_the_declared_order() {
        let widget =
            json!({"kind": "W", "apiVersion": "a.b/v1", "metadata": {"uid": "1", "name": "w"}});
        let secret =
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"uid": "1", "name": "s"}});
        let request = json!({"uid": "u", "userInfo": {"groups": ["g"], "username": "n"},
            "operation": "UPDATE", "kind": {"group": "", "kind": "Secret", "version": "v1"},
            "object": secret, "oldObject": widget, "dryRun": false, "name": "s"});
        for version in [ReviewVersion::V1, ReviewVersion::V1beta1] {
            let text = String::from_utf8(version.encode_request(request.clone())).unwrap();
            let expect = format!(
                r#"{{"kind":"AdmissionReview","apiVersion":"{}","request":{{"uid":"u","kind":{{"group":"","version":"v1","kind":"Secret"}},"name":"s","operation":"UPDATE","userInfo":{{"username":"n","groups":["g"]}},"object":{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"s","uid":"1"}}}},"oldObject":{{"apiVersion":"a.b/v1","kind":"W","metadata":{{"name":"w","uid":"1"}}}},"dryRun":false}}}}"#,
                version.api_version()
            );
            assert_eq!(text, expect);
        }
    }

    #[test]
    fn the_uid_and_the_type_of_a_response_are_verified() {
        check(
            WebhookType::Validating,
            &json!({"uid": "x"}),
            r#"expected response.uid="u", got "x""#,
        );
        check(WebhookType::Validating, &Value::Null, "webhook response was absent");
        let why =
            read(ReviewVersion::V1, WebhookType::Validating, &json!({"response": {"uid": "u"}}));
        assert_eq!(
            why.unwrap_err(),
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
        );
    }

    #[test]
    fn only_a_mutating_webhook_may_return_a_patch_with_its_type() {
        let patch = json!({"uid": "u", "patch": "W10="});
        check(WebhookType::Validating, &patch, "validating webhook may not return response.patch");
        check(
            WebhookType::Mutating,
            &patch,
            "webhook returned response.patch but not response.patchType",
        );
        check(
            WebhookType::Mutating,
            &json!({"uid": "u", "patchType": "JSONPatch"}),
            "webhook returned response.patchType but not response.patch",
        );
    }

    #[test]
    fn responses_in_v1beta1_are_not_verified() {
        let answer = json!({"response": {"allowed": true, "patch": "W10="}});
        let response = read(ReviewVersion::V1beta1, WebhookType::Mutating, &answer).unwrap();
        assert!(response.allowed);
        assert_eq!(response.patch, b"[]");
    }

    #[test]
    fn a_malformed_response_is_an_error() {
        let why = ReviewVersion::V1
            .decode_response(WebhookType::Mutating, "u", b"rubbish")
            .unwrap_err()
            .to_string();
        assert!(
            why.starts_with(
                "failed to call webhook: couldn't get version/kind; json parse error: "
            ),
            "{why}"
        );
        assert!(
            read(ReviewVersion::V1, WebhookType::Mutating, &v1(&json!({"allowed": "yes"})))
                .is_err()
        );
    }

    #[test]
    fn a_rejection_has_an_error_code_and_a_message() {
        let rejected = |rejection: &Value| {
            let rejection: RejectionStatus = serde_json::from_value(rejection.clone()).unwrap();
            let status = rejection.into_status("a.b.c").to_value();
            (status["code"].clone(), status["reason"].clone(), status["message"].clone())
        };
        let denied = "admission webhook \"a.b.c\" denied the request";
        assert_eq!(
            rejected(&json!({})),
            (json!(400), Value::Null, json!(format!("{denied} without explanation")))
        );
        assert_eq!(
            rejected(&json!({"code": 200, "reason": "TooBlue"})),
            (json!(400), json!("TooBlue"), json!(format!("{denied}: TooBlue")))
        );
        assert_eq!(
            rejected(&json!({"code": 418, "message": "tea"})),
            (json!(418), Value::Null, json!(format!("{denied}: tea")))
        );
        assert_eq!(rejected(&json!({"code": 70_000})).0, json!(500));
    }
}
