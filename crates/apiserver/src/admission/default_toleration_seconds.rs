//! `DefaultTolerationSeconds`: for how long a pod stays on a node that has gone quiet.

use super::Attributes;
use machinery::Object;

/// Adds what the pod does not say itself.
pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Object) {
    if attributes.is_of("", "pods") {
        kinds::core::pod::admission::default_tolerations(pod);
    }
}
