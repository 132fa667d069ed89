//! `DefaultTolerationSeconds`: limits the time that a pod stays on a node that is not ready or
//! unreachable.

use super::Attributes;
use machinery::Object;

/// Adds the tolerations that the pod does not have.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Object) {
    if attributes.is_of("", "pods") {
        kinds::core::pod::admission::default_tolerations(pod);
    }
}
