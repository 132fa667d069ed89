//! `CertificateSigning`: a user who sets the certificate or the conditions of a certificate signing
//! request must be allowed to sign requests for its signer.

use super::signer_authorization::{GROUP, is_authorized};
use super::{Attributes, Operation};
use crate::registry::admit::AdmissionFuture;
use machinery::field_path::quote;
use machinery::{Object, Status, Value};

/// Validates an update of the subresource `status`.
pub(super) fn validate<'a>(
    attributes: &'a Attributes<'a>,
    request: &'a Object,
) -> AdmissionFuture<'a, ()> {
    Box::pin(validate_status(attributes, request))
}

async fn validate_status(attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
    let Some(old) = attributes.old else { return Ok(()) };
    if attributes.operation != Operation::Update
        || !attributes.is_subresource_of(GROUP, "certificatesigningrequests", "status")
    {
        return Ok(());
    }
    if certificate(request) == certificate(old) && conditions(request) == conditions(old) {
        return Ok(());
    }
    let signer = old.str_at(&["spec", "signerName"]);
    if is_authorized(attributes, "sign", signer).await {
        return Ok(());
    }
    let why = format!("user not permitted to sign requests with signerName {}", quote(signer));
    Err(attributes.forbidden(request, &why))
}

fn certificate(request: &Object) -> &str {
    request.str_at(&["status", "certificate"])
}

fn conditions(request: &Object) -> &[Value] {
    let conditions = request.get(&["status", "conditions"]).and_then(Value::as_array);
    conditions.map_or(&[], Vec::as_slice)
}
