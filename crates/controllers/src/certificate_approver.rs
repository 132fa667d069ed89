//! `certificatesigningrequest-approving-controller`: approves requests for client certificates of
//! kubelets, if the requestor may create them (`selfnodeclient`, `nodeclient`).
//!
//! It reads certificate signing requests, creates subject access reviews, and updates approvals.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use crate::api_requests;
use crate::certificate_request::{
    CertificateRequestView, KUBELET_CLIENT_SIGNER, ParsedRequest, RequestCondition,
};
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use machinery::PolicyRule;
use runtime::informer::work_queue::RateLimits;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "certificatesigningrequest-approving-controller",
    aliases: &["csrapproving"],
    user: ControllerUser::ServiceAccount("certificate-controller"),
    rules: &[
        PolicyRule::new(
            &["certificates.k8s.io"],
            &["certificatesigningrequests/approval"],
            &["update"],
        ),
        PolicyRule::new(&["certificates.k8s.io"], &["signers"], &["approve"])
            .for_names(&[KUBELET_CLIENT_SIGNER]),
        PolicyRule::new(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
    ],
    start,
};

/// The delay after the first failure of a request.
pub(crate) const BACKOFF: Duration = Duration::from_millis(200);

/// A kind of request that is approved automatically.
struct Recognizer {
    recognizes: fn(&CertificateRequestView, &ParsedRequest) -> bool,
    /// The subresource of certificate signing requests that the requestor may create.
    permission: &'static str,
    message: &'static str,
}

const RECOGNIZERS: &[Recognizer] = &[
    Recognizer {
        recognizes: |request, parsed| {
            request.spec.username == parsed.common_name && is_node_client(request, parsed)
        },
        permission: "selfnodeclient",
        message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
    },
    Recognizer {
        recognizes: is_node_client,
        permission: "nodeclient",
        message: "Auto approving kubelet client certificate after SubjectAccessReview.",
    },
];

fn is_node_client(request: &CertificateRequestView, parsed: &ParsedRequest) -> bool {
    request.spec.signer_name == KUBELET_CLIENT_SIGNER
        && parsed.validate_kubelet_client(&request.spec.usages).is_ok()
}

struct State {
    client: Client,
    requests: Lister<CertificateRequestView>,
}

fn start(cx: &ControllerContext) {
    let state = State {
        client: cx.client.clone(),
        requests: cx.manager.informer::<CertificateSigningRequest>().lister(),
    };
    let controller = Controller::for_::<CertificateSigningRequest>()
        .named(cx.name)
        .back_off(RateLimits { backoff_base: BACKOFF, ..RateLimits::default() })
        .reconcile(reconcile, state);
    cx.manager.add(controller);
}

async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let Some(request) = cx.requests.get_key(&request)? else { return Ok(Action::Done) };
    if request.is_issued() || request.has_condition("Approved") || request.has_condition("Denied") {
        return Ok(Action::Done);
    }
    let parsed = request.parse().map_err(Failure::permanent)?;
    let mut tried = Vec::new();
    for recognizer in RECOGNIZERS.iter().filter(|it| (it.recognizes)(&request, &parsed)) {
        if cx.is_authorized(&request, recognizer.permission).await? {
            cx.approve(&request, recognizer.message).await?;
            return Ok(Action::Done);
        }
        tried.push(recognizer.permission);
    }
    if tried.is_empty() {
        return Ok(Action::Done);
    }
    // The requestor may be permitted later, so it is tried again.
    let (name, tried) = (&request.metadata.name, tried.join(" "));
    tracing::debug!(
        "recognized csr {name:?} as [{tried}] but subject access review was not approved"
    );
    Ok(Action::Requeue)
}

impl State {
    async fn is_authorized(
        &self,
        request: &CertificateRequestView,
        permission: &str,
    ) -> Result<bool, Failure> {
        let spec = &request.spec;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": spec.username,
                "uid": spec.uid,
                "groups": spec.groups,
                "extra": spec.extra,
                "resourceAttributes": {
                    "group": "certificates.k8s.io",
                    "resource": "certificatesigningrequests",
                    "subresource": permission,
                    "verb": "create",
                    "version": "*",
                },
            },
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let review: Value = api_requests::create(&self.client, path, &review).await?;
        Ok(review["status"]["allowed"] == true)
    }

    async fn approve(
        &self,
        request: &CertificateRequestView,
        message: &str,
    ) -> Result<(), Failure> {
        let mut conditions = request.status.conditions.clone();
        conditions.push(RequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: "AutoApproved".to_owned(),
            message: message.to_owned(),
            ..RequestCondition::default()
        });
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": request.metadata.to_update(),
            "spec": {"request": request.spec.request, "signerName": request.spec.signer_name},
            "status": {"conditions": conditions},
        });
        let path = format!("{}/approval", request.path());
        api_requests::replace::<Value>(&self.client, &path, &object).await?;
        Ok(())
    }
}
