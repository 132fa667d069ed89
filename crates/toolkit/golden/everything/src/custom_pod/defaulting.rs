//! The mutating webhook of `CustomPod`: sets defaults before an object is validated and stored.

use runtime::kube_core::admission::AdmissionRequest;
use runtime::webhook::{Changed, Denied};

use super::CustomPod;

/// Is called for each creation and update.
pub async fn mutate(request: AdmissionRequest<CustomPod>) -> Result<Changed<CustomPod>, Denied> {
    match request.object {
        Some(object) => Ok(Changed::to(with_defaults(object))),
        None => Ok(Changed::nothing()),
    }
}

fn with_defaults(mut object: CustomPod) -> CustomPod {
    // Your defaults come here. This is an example:
    let labels = object.metadata.labels.get_or_insert_default();
    labels.entry("app.kubernetes.io/managed-by".to_owned()).or_insert("operator-demo".to_owned());
    object
}
