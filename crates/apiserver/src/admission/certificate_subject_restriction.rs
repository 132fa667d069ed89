//! What is known of who asks for a certificate, and `CertificateSubjectRestriction`: nobody becomes
//! a member of `system:masters` by a certificate that they asked for.

use super::{Attributes, Operation};
use crate::auth::authorization::masters;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kinds::certificates::certificate_signing_request::set_requestor;
use machinery::{Object, Status, json};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

/// Who signs the certificates with which clients come to us.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn is_new_request(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create
        && attributes.is_of("certificates.k8s.io", "certificatesigningrequests")
}

/// Notes in a new request who asks. This is no plugin, and always on.
pub(super) fn record_requestor(attributes: &Attributes<'_>, request: &mut Object) {
    if is_new_request(attributes) {
        let user = &attributes.scope.user;
        set_requestor(request, &user.name, &user.uid, &user.groups, &json!(user.extra));
    }
}

/// Judges the groups that a request asks for.
pub(super) fn validate(attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
    if !is_new_request(attributes) || request.str_at(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let groups = BASE64_STANDARD
        .decode(request.str_at(&["spec", "request"]))
        .ok()
        .and_then(|pem| groups_of(&pem))
        .ok_or_else(|| attributes.forbidden(request, "failed to parse CSR"))?;
    if let Some(group) = groups.iter().find(|it| masters::is_named(it)) {
        let why = format!("use of {CLIENT_SIGNER} signer with {group} group is not allowed");
        return Err(attributes.forbidden(request, &why));
    }
    Ok(())
}

/// The organizations of the subject of a request in PEM.
fn groups_of(pem: &[u8]) -> Option<Vec<String>> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let subject = &request.certification_request_info.subject;
    Some(subject.iter_organization().filter_map(|it| it.as_str().ok()).map(str::to_owned).collect())
}
