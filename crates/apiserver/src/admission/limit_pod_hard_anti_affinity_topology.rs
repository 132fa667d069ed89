//! `LimitPodHardAntiAffinityTopology`: a pod keeps others away from its node at most.

use super::Attributes;
use kinds::core::pod::admission::refused_anti_affinity;
use machinery::{Object, Status};

/// Refuses a pod that keeps others away from more.
pub(super) fn validate(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    if !attributes.is_of("", "pods") {
        return Ok(());
    }
    refused_anti_affinity(pod).map_or(Ok(()), |why| Err(attributes.forbidden(pod, &why)))
}
