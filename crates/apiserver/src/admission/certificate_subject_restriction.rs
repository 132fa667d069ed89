//! `CertificateSubjectRestriction`: rejects certificate signing requests for a client certificate
//! of the group `system:masters`. The file also sets the requestor of certificate signing requests.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use super::{Attributes, Operation};
use crate::auth::authorization::masters;
use kinds::certificates::certificate_signing_request::set_requestor;
use machinery::{Object, Status, json};

/// The signer of client certificates for this server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn is_new_request(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create
        && attributes.is_of("certificates.k8s.io", "certificatesigningrequests")
}

/// Sets the fields of a new request that identify the requestor. This step belongs to no plugin and
/// cannot be disabled.
pub(super) fn record_requestor(attributes: &Attributes<'_>, request: &mut Object) {
    if is_new_request(attributes) {
        let user = &attributes.scope.user;
        set_requestor(request, &user.name, &user.uid, &user.groups, &json!(user.extra));
    }
}

/// Rejects a request for a certificate of the group `system:masters`.
pub(super) fn validate(attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
    if !is_new_request(attributes) || request.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let groups = BASE64_STANDARD
        .decode(request.str_at(&["spec", "request"]))
        .ok()
        .and_then(|pem| groups_of(&pem))
        .ok_or_else(|| attributes.forbidden(request, "failed to parse CSR"))?;
    if let Some(group) = groups.iter().find(|it| masters::is_masters_group(it)) {
        let why = format!("use of {CLIENT_SIGNER} signer with {group} group is not allowed");
        return Err(attributes.forbidden(request, &why));
    }
    Ok(())
}

/// The organizations in the subject of a request in PEM; `None` if one of them cannot be read, which
/// others may be able to.
fn groups_of(pem: &[u8]) -> Option<Vec<String>> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().map(|it| it.as_str().ok().map(str::to_owned)).collect()
}
