//! The annotation in which client-side `kubectl apply` stores the applied configuration, and the
//! migration from it to field ownership.
//!
//! Server-side `kubectl apply` may take over, without force, the fields of the annotation that
//! still have the same value in the object. It keeps the annotation up to date, so that the user
//! can return to client-side apply.

use super::compare::compare;
use super::fields::fields;
use super::request::Request;
use super::schema::Schema;
use super::set::Set;
use super::validate::validate;
use crate::{ErrorList, Map, Object, Path, Value, codec, meta};

/// The annotation.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager that uses the annotation.
pub(super) const MANAGER: &str = "kubectl";

/// The fields that kubectl applied and that still have the applied value. None if the annotation is
/// missing, invalid or of another version.
pub(super) fn owned<S: Schema, V>(request: &Request<'_, S, V>, live: &Object) -> Option<Set> {
    let text = live.annotation(ANNOTATION).filter(|text| !text.is_empty())?;
    let applied = Object::from_value(codec::json::decode(text.as_bytes()).ok()?.value)?;
    if applied.api_version() != request.api_version {
        return None;
    }
    validate(request.schema, applied.map()).ok()?;
    let changes = compare(request.schema, applied.map(), live.map()).ok()?;
    let applied = fields(request.schema, applied.map());
    Some(
        applied
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

/// Writes a configuration that kubectl applied into the annotation, if the object has the
/// annotation.
pub(super) fn update_annotation(object: &mut Object, config: &Object) {
    if object.annotation(ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.get_mut(&["metadata", "annotations"]) {
        annotations.remove(ANNOTATION);
    }
    let text = codec::json::to_text(&config.into_value()) + "\n";
    let annotations = object.map_at(&["metadata", "annotations"]);
    annotations.insert(ANNOTATION.to_owned(), text.into());
    if too_large(annotations) {
        annotations.remove(ANNOTATION);
    }
}

/// Whether the annotations exceed the limit on their total size.
fn too_large(annotations: &Map<String, Value>) -> bool {
    let mut errors = ErrorList::new();
    meta::validate_annotations(annotations, &Path::EMPTY, &mut errors);
    errors != ErrorList::new()
}
