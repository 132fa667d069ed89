//! `LimitPodHardAntiAffinityTopology`: required anti-affinity of a pod is limited to the topology
//! of single nodes.

use super::Attributes;
use kinds::core::pod::admission::refused_anti_affinity;
use machinery::{Object, Status};

/// Rejects a pod whose required anti-affinity has another topology key than the hostname.
pub(super) fn validate(attributes: &Attributes<'_>, pod: &Object) -> Result<(), Status> {
    if !attributes.is_of("", "pods") {
        return Ok(());
    }
    refused_anti_affinity(pod).map_or(Ok(()), |why| Err(attributes.forbidden(pod, &why)))
}
