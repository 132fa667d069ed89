//! `CertificateApproval`: a user who approves or denies a certificate signing request must be
//! allowed to approve requests for its signer.

use super::signer_authorization::{GROUP, is_authorized};
use super::{Attributes, Operation};
use crate::registry::admit::AdmissionFuture;
use machinery::field_path::quote;
use machinery::{Object, Status};

/// Validates an update of the subresource `approval`.
pub(super) fn validate<'a>(
    attributes: &'a Attributes<'a>,
    request: &'a Object,
) -> AdmissionFuture<'a, ()> {
    Box::pin(validate_approval(attributes, request))
}

async fn validate_approval(attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
    let Some(old) = attributes.old else { return Ok(()) };
    if attributes.operation != Operation::Update
        || !attributes.is_subresource_of(GROUP, "certificatesigningrequests", "approval")
    {
        return Ok(());
    }
    let signer = old.str_at(&["spec", "signerName"]);
    if is_authorized(attributes, "approve", signer).await {
        return Ok(());
    }
    let why = format!("user not permitted to approve requests with signerName {}", quote(signer));
    Err(attributes.forbidden(request, &why))
}
