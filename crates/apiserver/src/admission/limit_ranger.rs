//! `LimitRanger`: gives containers what the limit ranges of their namespace have for those who ask
//! for nothing, and holds pods and claims against them.

use super::{Attempt, Operation, aggregated};
use machinery::{Object, Status};

enum Limited {
    Pod,
    Claim,
}

/// What is limited here: what is new, a pod that changes its size, a claim that grows; not what is
/// on its way out.
fn limited(attempt: &Attempt<'_>) -> Option<Limited> {
    if attempt.old.is_some_and(|it| it.deletion_timestamp().is_some()) {
        return None;
    }
    let is_new = attempt.operation == Operation::Create;
    if attempt.is_of("", "persistentvolumeclaims") {
        return Some(Limited::Claim);
    }
    let is_pod = (is_new && attempt.is_of("", "pods")) || attempt.is_part_of("", "pods", "resize");
    is_pod.then_some(Limited::Pod)
}

/// Fills in what the containers of a pod do not ask for.
pub(super) fn mutate(attempt: &Attempt<'_>, object: &mut Object) {
    if let Some(Limited::Pod) = limited(attempt) {
        let ranges =
            attempt.admission().limit_ranges.initialized(&attempt.cx.plane, attempt.namespace);
        for limits in ranges {
            limits.fill_in(object);
        }
    }
}

/// Refuses what is too small, too large or too uneven.
pub(super) fn judge(attempt: &Attempt<'_>, object: &Object) -> Result<(), Status> {
    let Some(limited) = limited(attempt) else { return Ok(()) };
    let ranges = attempt.admission().limit_ranges.initialized(&attempt.cx.plane, attempt.namespace);
    for limits in ranges {
        let found = match limited {
            Limited::Pod => limits.complaints_about_pod(object),
            Limited::Claim => limits.complaints_about_claim(object),
        };
        if !found.is_empty() {
            return Err(attempt.forbidden(object, &aggregated(found)));
        }
    }
    Ok(())
}
