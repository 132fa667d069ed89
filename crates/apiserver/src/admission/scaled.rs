//! What others are shown of a request to `/scale`: the Scale, not the object that has it.

use super::Attempt;
use crate::endpoints::scale;
use machinery::{GroupVersionKind, Object, Status, Value};
use types::resource::Scale;

/// Where the object keeps what the request is about, if it is one to `/scale`.
pub(super) fn scale<'a>(attempt: &Attempt<'a>) -> Option<&'a Scale> {
    let cx = attempt.cx;
    cx.version().scale.as_ref().filter(|_| cx.target.subresource == "scale")
}

/// The Scale of an object.
pub(super) fn of(attempt: &Attempt<'_>, scale: &Scale, object: &Object) -> Result<Object, Status> {
    scale::of(attempt.cx, scale, object).map(|it| Object::from_value(it).unwrap_or_default())
}

/// The attempt to change the Scale that was `old`.
pub(super) fn attempt<'a>(attempt: &Attempt<'a>, old: Option<&'a Object>) -> Attempt<'a> {
    let kind = GroupVersionKind::new("autoscaling", "v1", "Scale");
    Attempt { kind: Some(kind), old, name: attempt.name.clone(), ..*attempt }
}

/// Brings what became of the Scale back to its object.
pub(super) fn put_back(scale: &Scale, shown: &Object, object: &mut Object) {
    if let Some(replicas) = shown.get(&["spec", "replicas"]).and_then(Value::as_i64) {
        scale::set_replicas(scale, object, replicas);
    }
}
