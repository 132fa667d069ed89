//! `AlwaysPullImages`: every container pulls its image, so that a pod cannot use a private image
//! that is already on the node without the credentials for it.

use super::Attributes;
use kinds::core::pod::admission as pod;
use machinery::status::aggregate_messages;
use machinery::{Object, Status};

/// Whether the pod has images that are not checked yet. An update without new images is not
/// checked.
fn has_new_images(attributes: &Attributes<'_>, object: &Object) -> bool {
    attributes.is_of("", "pods")
        && attributes.old.is_none_or(|old| pod::has_new_images(object, old))
}

/// Sets the image pull policy of every container to `Always`.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) {
    if has_new_images(attributes, object) {
        pod::pull_always(object);
    }
}

/// Rejects a pod with another image pull policy.
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
