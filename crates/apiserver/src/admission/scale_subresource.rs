//! Requests to `/scale`: policies and webhooks get the Scale instead of the object that is scaled.

use super::Attributes;
use crate::registry::scale;
use machinery::{GroupVersionKind, Object, Status, Value};
use types::resource::Scale;

/// The field paths of the object's Scale if the request is for `/scale`.
pub(super) fn requested_scale<'a>(attributes: &Attributes<'a>) -> Option<&'a Scale> {
    let scope = attributes.scope;
    scope.version().scale.as_ref().filter(|_| scope.path.subresource == "scale")
}

/// The Scale of an object.
pub(super) fn scale_of(
    attributes: &Attributes<'_>,
    scale: &Scale,
    object: &Object,
) -> Result<Object, Status> {
    scale::of(attributes.scope, scale, object).map(|it| Object::from_value(it).unwrap_or_default())
}

/// The attributes of the update of a Scale. `old` is the Scale of the stored object.
pub(super) fn attributes<'a>(
    attributes: &Attributes<'a>,
    old: Option<&'a Object>,
) -> Attributes<'a> {
    let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
    Attributes { kind: Some(kind), old, name: attributes.name.clone(), ..*attributes }
}

/// Writes the replicas of the Scale to its object.
pub(super) fn apply_to_object(scale: &Scale, scale_object: &Object, object: &mut Object) {
    if let Some(replicas) = scale_object.get(&["spec", "replicas"]).and_then(Value::as_i64) {
        scale::set_replicas(scale, object, replicas);
    }
}
