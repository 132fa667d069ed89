//! `DefaultStorageClass`: sets the default storage class of claims that name no class.

use super::{Attributes, Operation, default_class};
use crate::cache::watch_cache::Snapshot;
use machinery::Object;

/// The name of the default class, if one exists.
pub(super) fn read(classes: &Snapshot) -> Option<String> {
    let annotations = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    default_class::default_class(classes, &annotations)
}

/// Sets the class of a new claim that names none.
pub(super) fn mutate(attributes: &Attributes<'_>, claim: &mut Object) {
    if attributes.operation != Operation::Create || !attributes.is_of("", "persistentvolumeclaims")
    {
        return;
    }
    // The class "" requests a volume without a class.
    let has_class = claim.annotation("volume.beta.kubernetes.io/storage-class").is_some()
        || claim.get(&["spec", "storageClassName"]).is_some_and(|it| !it.is_null());
    let default = attributes.admission.default_storage_class.current(&attributes.scope.storage);
    if let (false, Some(name)) = (has_class, &*default) {
        claim.map_at(&["spec"]).insert("storageClassName".to_owned(), name.as_str().into());
    }
}
