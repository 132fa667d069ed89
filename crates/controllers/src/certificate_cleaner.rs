//! `certificatesigningrequest-cleaner-controller`: deletes certificate signing requests an hour after
//! their certificate was issued, or after they were denied or have failed; a day after they were
//! created, if nobody has decided; and when their certificate has expired.
//!
//! It reads and deletes certificate signing requests.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use x509_parser::pem::parse_x509_pem;

use crate::api_requests::{self, none_if_missing};
use crate::certificate_request::CertificateRequestView;
use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::time::to_timestamp;
use keel::{Clock, Timestamp};
use machinery::PolicyRule;
use runtime::{Action, Client, Controller, Failure, Lister, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "certificatesigningrequest-cleaner-controller",
    aliases: &["csrcleaner"],
    user: ControllerUser::ServiceAccount("certificate-controller"),
    rules: &[PolicyRule::new(
        &["certificates.k8s.io"],
        &["certificatesigningrequests"],
        &["delete"],
    )],
    start,
};

/// The time for which a request remains after the decision about it.
const DECIDED_TIME: Duration = Duration::from_hours(1);

/// The time for which a request waits for a decision or a certificate.
const PENDING_TIME: Duration = Duration::from_hours(24);

struct State {
    client: Client,
    clock: Clock,
    requests: Lister<CertificateRequestView>,
}

fn start(cx: &ControllerContext) {
    let state = State {
        client: cx.client.clone(),
        clock: cx.clock().clone(),
        requests: cx.manager.informer::<CertificateSigningRequest>().lister(),
    };
    let controller =
        Controller::for_::<CertificateSigningRequest>().named(cx.name).reconcile(reconcile, state);
    cx.manager.add(controller);
}

/// Deletes a request whose time is over. Upstream looks at all requests every hour; here each has its
/// own time.
async fn reconcile(request: Request, cx: Arc<State>) -> Result<Action, Failure> {
    let Some(request) = cx.requests.get_key(&request)? else { return Ok(Action::Done) };
    let Some(end) = end(&request) else { return Ok(Action::Done) };
    let now = cx.clock.now();
    if now <= end {
        // The time must have passed, and the clock has at least this resolution.
        return Ok(Action::RequeueAfter(end.since(now) + Duration::from_millis(1)));
    }
    let deleted = api_requests::delete(&cx.client, &request.path(), &request.metadata.uid).await;
    none_if_missing(deleted)?;
    Ok(Action::Done)
}

/// The time after which a request is deleted.
fn end(request: &CertificateRequestView) -> Option<Timestamp> {
    let after = |time: Option<&Time>, duration| Some(to_timestamp(time?) + duration);
    let conditions = &request.status.conditions;
    if conditions.is_empty() {
        return after(request.metadata.creation_timestamp.as_ref(), PENDING_TIME);
    }
    let is_issued = request.is_issued();
    let decided = conditions.iter().filter_map(|condition| {
        let duration = match condition.type_.as_str() {
            "Denied" | "Failed" => DECIDED_TIME,
            "Approved" if is_issued => DECIDED_TIME,
            "Approved" => PENDING_TIME,
            _ => return None,
        };
        after(condition.last_update_time.as_ref(), duration)
    });
    let is_approved = request.has_condition("Approved");
    let expired = is_approved.then(|| not_after(&request.status.certificate.0)).flatten();
    decided.chain(expired).min()
}

/// The end of the validity of a certificate in PEM.
fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let (_, pem) = parse_x509_pem(certificate).ok()?;
    let not_after = pem.parse_x509().ok()?.validity().not_after;
    Some(Timestamp::from_seconds(not_after.timestamp()))
}
