//! The validating webhook of `CustomPod`: refuses objects that are not valid.

use runtime::kube_core::admission::AdmissionRequest;
use runtime::prelude::*;
use runtime::webhook::{Allowed, Denied};

use super::CustomPod;

/// Is called for each creation and update; `request.old_object` is the object before an update.
pub async fn validate(request: AdmissionRequest<CustomPod>) -> Result<Allowed, Denied> {
    let Some(object) = request.object else { return Ok(Allowed::default()) };
    // Your checks come here. This is an example; rules in `#[resource(…)]` need no webhook.
    if object.name_any().len() > 60 {
        return Err(Denied::invalid("metadata.name", "must have at most 60 characters"));
    }
    Ok(Allowed::default())
}
