//! `PersistentVolumeClaimResize`: a claim can grow only if it is bound and its storage class allows
//! expansion. (The kind's own validation rejects a claim that shrinks.)

use super::Attributes;
use kinds::core::persistent_volume_claim::{class_of, grows};
use machinery::{Object, Status, Value};

/// Rejects the expansion of a claim that is not bound or whose class does not allow expansion.
pub(super) fn validate(attributes: &Attributes<'_>, claim: &Object) -> Result<(), Status> {
    let Some(old) = attributes.old.filter(|_| attributes.is_of("", "persistentvolumeclaims"))
    else {
        return Ok(());
    };
    if !grows(claim, old) {
        return Ok(());
    }
    if old.str_at(&["status", "phase"]) != "Bound" {
        let why = "Only bound persistent volume claims can be expanded";
        return Err(attributes.forbidden(claim, why));
    }
    if class_allows_expansion(attributes, claim, old) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(attributes.forbidden(claim, why))
}

fn class_allows_expansion(attributes: &Attributes<'_>, claim: &Object, old: &Object) -> bool {
    let name = class_of(claim);
    if name.is_empty() || name != class_of(old) {
        return false;
    }
    let catalog = attributes.scope.storage.catalog.load();
    let class = catalog
        .resource("storage.k8s.io", "storageclasses")
        .and_then(|it| it.cache.get(&it.key("", name)));
    class.is_some_and(|it| {
        it.object_as_stored().get(&["allowVolumeExpansion"]) == Some(&Value::Bool(true))
    })
}
