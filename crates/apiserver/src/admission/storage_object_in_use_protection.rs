//! `StorageObjectInUseProtection`: a claim, a volume or a volume attributes class is not removed
//! while it is in use. The plugin adds a finalizer, which a controller removes.

use super::{Attributes, Operation};
use machinery::{Object, Value};

const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

/// Adds the finalizer to a new object.
pub(super) fn mutate(attributes: &Attributes<'_>, object: &mut Object) {
    if attributes.operation != Operation::Create {
        return;
    }
    let protected = PROTECTED.iter().find(|(group, plural, _)| attributes.is_of(group, plural));
    let Some((_, _, finalizer)) = protected else { return };
    if !object.finalizers().any(|it| it == *finalizer) {
        let mut all: Vec<Value> = object.finalizers().map(Value::from).collect();
        all.push((*finalizer).into());
        object.set_meta("finalizers", all);
    }
}
