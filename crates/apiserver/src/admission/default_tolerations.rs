//! `DefaultTolerationSeconds`: for how long a pod stays on a node that has gone quiet.

use super::Attempt;
use machinery::Object;

/// Adds what the pod does not say itself.
pub(super) fn mutate(attempt: &Attempt<'_>, pod: &mut Object) {
    if attempt.is_of("", "pods") {
        kinds::core::pod::admission::default_tolerations(pod);
    }
}
