//! `LimitRanger`: sets the default requests and limits of containers, and validates pods and claims
//! against the limit ranges of their namespace.

use std::sync::Arc;

use super::{Attributes, Operation};
use kinds::core::limit_range::enforcement::{self, Limits, Refusal};
use machinery::status::aggregate_messages;
use machinery::{Object, Status};

enum LimitedKind {
    Pod,
    Claim,
}

/// The kind of an object that limit ranges apply to: new pods, resized pods, and claims. Objects
/// that are being deleted are exempt.
fn limited_kind(attributes: &Attributes<'_>) -> Option<LimitedKind> {
    if attributes.old.is_some_and(|it| it.deletion_timestamp().is_some()) {
        return None;
    }
    let is_new = attributes.operation == Operation::Create;
    if attributes.is_of("", "persistentvolumeclaims") {
        return Some(LimitedKind::Claim);
    }
    let is_pod = (is_new && attributes.is_of("", "pods"))
        || attributes.is_subresource_of("", "pods", "resize");
    is_pod.then_some(LimitedKind::Pod)
}

/// Sets the default requests and limits of a pod's containers.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    let Some(LimitedKind::Pod) = limited_kind(attributes) else { return Ok(()) };
    enforcement::set_defaults(&ranges(attributes)?, object)
        .map_err(|error| Status::too_large(&error.to_string()))
}

/// Rejects an object that violates a limit range.
pub(super) fn validate(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let Some(limited) = limited_kind(attributes) else { return Ok(()) };
    let ranges = ranges(attributes)?;
    let outcome = match limited {
        LimitedKind::Pod => enforcement::validate_pod(&ranges, object),
        LimitedKind::Claim => enforcement::validate_claim(&ranges, object),
    };
    outcome.map_err(|refusal| match refusal {
        Refusal::Violations(found) => attributes.forbidden(object, &aggregate_messages(found)),
        Refusal::TooLarge => Status::too_large(
            "the object has too many resources to be compared with the limit ranges of the namespace",
        ),
    })
}

fn ranges(attributes: &Attributes<'_>) -> Result<Vec<Arc<Limits>>, Status> {
    attributes.admission.limit_ranges.initialized(&attributes.scope.storage, attributes.namespace)
}
