//! `AlwaysPullImages`: every container pulls its image, so that nobody runs what only others may
//! pull.

use super::{Attempt, aggregated};
use kinds::core::pod::admission as pod;
use machinery::{Object, Status};

/// Whether the images of a pod are to be looked at: those of a change that brings none are not.
fn has_new_images(attempt: &Attempt<'_>, object: &Object) -> bool {
    attempt.is_of("", "pods") && attempt.old.is_none_or(|old| pod::has_new_images(object, old))
}

/// Lets every container pull its image.
pub(super) fn mutate(attempt: &Attempt<'_>, object: &mut Object) {
    if has_new_images(attempt, object) {
        pod::pull_always(object);
    }
}

/// Refuses a pod that does not.
pub(super) fn judge(attempt: &Attempt<'_>, object: &Object) -> Result<(), Status> {
    if !has_new_images(attempt, object) {
        return Ok(());
    }
    let found = pod::images_not_always_pulled(object);
    if found.is_empty() {
        return Ok(());
    }
    let texts = found.iter().map(|it| attempt.forbidden(object, it).message).collect();
    let mut status = attempt.forbidden(object, "");
    status.message = aggregated(texts);
    Err(status)
}
