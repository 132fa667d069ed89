//! `certificatesigningrequest-signing-controller`: issues the certificates of approved requests, for
//! the signers of Kubernetes: clients of the API server, kubelets as clients and as servers, and
//! requests of earlier versions of the API. A request that the signer does not accept fails.
//!
//! It reads certificate signing requests, and updates their status. The plane signs
//! ([`Signers`](crate::Signers)), so all certificates are issued by its authority.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use crate::api_requests;
use crate::certificate_approver::BACKOFF;
use crate::certificate_request::{
    CLIENT_SIGNER, CertificateRequestView, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER,
    LEGACY_SIGNER, ParsedRequest, RequestCondition, validate_client_usages,
};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::signers::{ApprovedRequest, Signers};
use crate::time;
use keel::Clock;
use machinery::PolicyRule;
use runtime::informer::work_queue::RateLimits;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "certificatesigningrequest-signing-controller",
    aliases: &["csrsigning"],
    user: ControllerUser::ServiceAccount("certificate-controller"),
    rules: &[
        PolicyRule::new(
            &["certificates.k8s.io"],
            &["certificatesigningrequests/status"],
            &["update"],
        ),
        PolicyRule::new(&["certificates.k8s.io"], &["signers"], &["sign"]).for_names(&[
            CLIENT_SIGNER,
            KUBELET_CLIENT_SIGNER,
            KUBELET_SERVING_SIGNER,
            LEGACY_SIGNER,
        ]),
    ],
    start,
};

/// The longest lifetime of a certificate. Upstream: --cluster-signing-duration
const MAX_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// The shortest lifetime of a certificate.
const MIN_LIFETIME: Duration = Duration::from_mins(10);

struct State {
    client: Client,
    clock: Clock,
    requests: Lister<CertificateRequestView>,
    signers: Signers,
}

fn start(cx: &ControllerContext) {
    let state = State {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        requests: cx.manager.informer::<CertificateSigningRequest>().lister(),
        signers: cx.options.signers.clone(),
    };
    let controller = Controller::for_::<CertificateSigningRequest>()
        .named(cx.name)
        .back_off(RateLimits { backoff_base: BACKOFF, ..RateLimits::default() })
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let Some(request) = cx.requests.get_key(&request)? else { return Ok(Action::Done) };
    let is_approved = request.has_condition("Approved") && !request.has_condition("Denied");
    let has_failed = |condition: &RequestCondition| {
        condition.type_ == "Failed" && matches!(condition.status.as_str(), "" | "True")
    };
    if request.is_issued() || !is_approved || request.status.conditions.iter().any(has_failed) {
        return Ok(Action::Done);
    }
    let usages = &request.spec.usages;
    let validate: fn(&ParsedRequest, &[String]) -> Result<(), String> =
        match request.spec.signer_name.as_str() {
            CLIENT_SIGNER => |_, usages| validate_client_usages(usages),
            KUBELET_CLIENT_SIGNER => ParsedRequest::validate_kubelet_client,
            KUBELET_SERVING_SIGNER => ParsedRequest::validate_kubelet_serving,
            LEGACY_SIGNER => |_, _| Ok(()),
            // The signer of somebody else.
            _ => return Ok(Action::Done),
        };
    let parsed = request.parse().map_err(Failure::permanent)?;
    let valid = cx.validate_name(&parsed).and_then(|()| validate(&parsed, usages));
    if let Err(message) = valid {
        cx.fail(&request, message).await?;
        return Ok(Action::Done);
    }
    let approved = ApprovedRequest {
        request: request.spec.request.0.clone(),
        usages: usages.clone(),
        lifetime: lifetime(request.spec.expiration_seconds),
    };
    let certificate = (cx.signers.certificate)(&approved).map_err(Failure::transient)?;
    let certificate = ByteString(certificate.into_bytes());
    cx.update(&request, &request.status.conditions, Some(&certificate)).await?;
    Ok(Action::Done)
}

/// The requested lifetime within the limits.
fn lifetime(seconds: Option<u32>) -> Duration {
    let requested = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    requested.map_or(MAX_LIFETIME, |requested| requested.clamp(MIN_LIFETIME, MAX_LIFETIME))
}

impl State {
    fn validate_name(&self, parsed: &ParsedRequest) -> Result<(), String> {
        let name = &parsed.common_name;
        // Stricter than upstream: a server that reads another one than the last would see another user.
        if parsed.common_names > 1 {
            return Err("the subject has several common names".to_owned());
        }
        if self.signers.proxy_names.contains(name) {
            return Err(format!(
                "the common name {name:?} is reserved for the proxies of the plane"
            ));
        }
        Ok(())
    }

    async fn fail(&self, request: &CertificateRequestView, message: String) -> Result<(), Failure> {
        let mut conditions = request.status.conditions.clone();
        conditions.push(RequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: "SignerValidationFailure".to_owned(),
            message,
            last_update_time: Some(time::now(&self.clock)),
            ..RequestCondition::default()
        });
        self.update(request, &conditions, None).await
    }

    async fn update(
        &self,
        request: &CertificateRequestView,
        conditions: &[RequestCondition],
        certificate: Option<&ByteString>,
    ) -> Result<(), Failure> {
        let mut status = json!({"conditions": conditions});
        if let Some(certificate) = certificate {
            status["certificate"] = json!(certificate);
        }
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": request.metadata.to_update(),
            "spec": {"request": request.spec.request, "signerName": request.spec.signer_name},
            "status": status,
        });
        let path = format!("{}/status", request.path());
        api_requests::replace::<Value>(&self.client, &path, &object).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lifetime_is_ten_minutes_to_a_year() {
        assert_eq!(lifetime(None), MAX_LIFETIME);
        assert_eq!(lifetime(Some(1)), MIN_LIFETIME);
        assert_eq!(lifetime(Some(3600)), Duration::from_hours(1));
        assert_eq!(lifetime(Some(u32::MAX)), MAX_LIFETIME);
    }
}
