//! `AlwaysPullImages`: every container pulls its image, so that nobody runs what only others may
//! pull.

use super::{Attributes, aggregate_messages};
use kinds::core::pod::admission as pod;
use machinery::{Object, Status};

/// Whether the images of a pod are to be looked at: those of a change that brings none are not.
fn has_new_images(attributes: &Attributes<'_>, object: &Object) -> bool {
    attributes.is_of("", "pods")
        && attributes.old.is_none_or(|old| pod::has_new_images(object, old))
}

/// Lets every container pull its image.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) {
    if has_new_images(attributes, object) {
        pod::pull_always(object);
    }
}

/// Refuses a pod that does not.
pub(super) fn validate(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    if !has_new_images(attributes, object) {
        return Ok(());
    }
    let found = pod::images_not_always_pulled(object);
    if found.is_empty() {
        return Ok(());
    }
    let texts = found.iter().map(|it| attributes.forbidden(object, it).message).collect();
    let mut status = attributes.forbidden(object, "");
    status.message = aggregate_messages(texts);
    Err(status)
}
