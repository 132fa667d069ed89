//! Validation of `metadata` on create and on update.
//!
//! Upstream: `apimachinery/pkg/api/validation/objectmeta.go`.

pub mod initializers;

use std::collections::BTreeSet;

use crate::field_path::{ErrorType, quote};
use crate::names::{self, NameRule};
use crate::{ErrorList, GroupVersion, Map, Object, Path, Value, json, timestamp};

const METADATA: Path<'static> = Path::root("metadata");
const ANNOTATIONS_MAX: usize = 256 * 1024;
const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Validates the metadata of a new object whose name has been generated already.
pub fn validate_object_meta(
    object: &Object,
    namespaced: bool,
    validate_name: NameRule,
    errors: &mut ErrorList,
) {
    let generate_name = object.meta_text("generateName");
    if !generate_name.is_empty() {
        add_invalid(
            errors,
            "generateName",
            generate_name,
            validate_name(&mask_trailing_dash(generate_name)),
        );
    }
    match object.name() {
        "" => errors.required(&METADATA.child("name"), "name or generateName is required"),
        name => add_invalid(errors, "name", name, validate_name(name)),
    }
    match (object.namespace(), namespaced) {
        ("", true) => errors.required(&METADATA.child("namespace"), ""),
        ("", false) => {}
        (name, true) => add_invalid(errors, "namespace", name, names::namespace_name(name)),
        (_, false) => {
            errors.forbidden(&METADATA.child("namespace"), "not allowed on this type");
        }
    }
    validate_generation(object, errors);
    validate_common_fields(object, errors);
    validate_finalizers(object, errors);
    initializers::validate(object, errors);
}

/// Validates the metadata of a changed object against the stored one. The new object has the
/// `resourceVersion` that it replaces.
pub fn validate_object_meta_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    if old.deletion_timestamp().is_some() {
        validate_no_new_finalizers(new, old, errors);
    }
    if new.resource_version().is_empty() {
        let path = METADATA.child("resourceVersion");
        errors.invalid(&path, "", "must be specified for an update");
    }
    validate_generation(new, errors);
    if new.generation() < old.generation() {
        let path = METADATA.child("generation");
        errors.invalid(&path, new.generation(), "must not be decremented");
    }
    for key in ["name", "namespace", "uid"] {
        if new.meta_text(key) != old.meta_text(key) {
            errors.invalid(&METADATA.child(key), new.meta_text(key), IMMUTABLE);
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp"] {
        if !same_time(meta_value(new, key), meta_value(old, key)) {
            errors.invalid(&METADATA.child(key), meta_value(new, key).clone(), IMMUTABLE);
        }
    }
    let key = "deletionGracePeriodSeconds";
    if meta_value(new, key) != meta_value(old, key) {
        errors.invalid(&METADATA.child(key), meta_value(new, key).clone(), IMMUTABLE);
    }
    validate_common_fields(new, errors);
    initializers::validate_update(new, old, errors);
}

/// The finalizers without a domain that built-in kinds may have.
pub const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The additional rule for the finalizers of built-in kinds: a domain, or a standard name.
pub fn validate_builtin_finalizers(object: &Object, errors: &mut ErrorList) {
    let path = METADATA.child("finalizers");
    for (index, finalizer) in object.finalizers().enumerate() {
        validate_builtin_finalizer(finalizer, &path.index(index), errors);
    }
}

/// Validates one finalizer of a built-in kind, or of `spec.finalizers` of a Namespace.
pub fn validate_builtin_finalizer(finalizer: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, detail);
    }
}

/// Validates a map of labels: keys and values.
pub fn validate_labels(labels: &Map<String, Value>, path: &Path<'_>, errors: &mut ErrorList) {
    for (key, value) in labels {
        for message in names::qualified_name(key) {
            errors.invalid(path, key.as_str(), &message);
        }
        let value = value.as_str().unwrap_or_default();
        for message in names::label_value(value) {
            errors.invalid(path, value, &message);
        }
    }
}

/// Validates a map of annotations: the keys, and the total size.
pub fn validate_annotations(
    annotations: &Map<String, Value>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        for message in names::qualified_name(&key.to_lowercase()) {
            errors.invalid(path, key.as_str(), &message);
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.too_long(path, ANNOTATIONS_MAX);
    }
}

/// Validates the name of a field manager.
pub fn validate_field_manager(manager: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if manager.len() > MANAGER_MAX {
        errors.too_long(path, MANAGER_MAX);
    }
    for (index, c) in manager.char_indices().filter(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {index})", c as u32);
        errors.invalid(path, manager, &detail);
    }
}

fn validate_common_fields(object: &Object, errors: &mut ErrorList) {
    if let Some(labels) = meta_value(object, "labels").as_object() {
        validate_labels(labels, &METADATA.child("labels"), errors);
    }
    if let Some(annotations) = meta_value(object, "annotations").as_object() {
        validate_annotations(annotations, &METADATA.child("annotations"), errors);
    }
    validate_owner_references(list(object, "ownerReferences"), errors);
    validate_managed_fields(list(object, "managedFields"), errors);
}

fn validate_generation(object: &Object, errors: &mut ErrorList) {
    if object.generation() < 0 {
        let path = METADATA.child("generation");
        errors.invalid(&path, object.generation(), "must be greater than or equal to 0");
    }
}

fn validate_owner_references(references: &[Value], errors: &mut ErrorList) {
    let path = METADATA.child("ownerReferences");
    let mut first_controller: Option<String> = None;
    let mut all_references: Option<String> = None;
    for (index, reference) in references.iter().enumerate() {
        validate_owner_reference(reference, &path.index(index), errors);
        // The error of each further controller shows all references, as upstream's does.
        if reference["controller"] != true || errors.is_full() {
            continue;
        }
        let name = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        let Some(first) = &first_controller else {
            first_controller = Some(name);
            continue;
        };
        let all_references = all_references.get_or_insert_with(|| {
            references.iter().map(owner_reference_json).collect::<Vec<_>>().join(",")
        });
        let detail = format!(
            "[{all_references}]: Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
        );
        errors.add(ErrorType::Invalid, &path, None, &detail);
    }
}

fn validate_owner_reference(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let api_version = text(reference, "apiVersion");
    let parsed = api_version
        .parse::<GroupVersion>()
        .ok()
        .filter(|parsed: &GroupVersion| !parsed.version.is_empty());
    if !api_version.is_empty() && parsed.is_none() {
        let detail = "must be <group>/<version> or <version>";
        errors.invalid(&path.child("apiVersion"), api_version, detail);
    }
    for key in ["apiVersion", "kind", "name", "uid"] {
        if text(reference, key).is_empty() {
            errors.required(&path.child(key), "must not be empty");
        }
    }
    // Upstream: BannedOwners. Events are short-lived.
    if (api_version, text(reference, "kind")) == ("v1", "Event") {
        let detail = format!(
            "{}: /v1, Kind=Event is disallowed from being an owner",
            owner_reference_json(reference)
        );
        errors.add(ErrorType::Invalid, path, None, &detail);
    }
}

/// The reference's JSON in the order of upstream's struct, which a [`Value`] cannot keep.
fn owner_reference_json(reference: &Value) -> String {
    let needed =
        ["apiVersion", "kind", "name", "uid"].map(|key| (key, json!(text(reference, key))));
    let optional = ["controller", "blockOwnerDeletion"]
        .into_iter()
        .filter_map(|key| Some((key, reference.get(key)?.clone())))
        .filter(|(_, value)| !value.is_null());
    let fields: Vec<String> = needed
        .into_iter()
        .chain(optional)
        .map(|(key, value)| format!("\"{key}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn validate_finalizers(object: &Object, errors: &mut ErrorList) {
    let path = METADATA.child("finalizers");
    for finalizer in object.finalizers() {
        for message in names::qualified_name(finalizer) {
            errors.invalid(&path, finalizer, &message);
        }
    }
    let has = |name| object.finalizers().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let finalizers: Vec<&str> = object.finalizers().collect();
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&path, finalizers, detail);
    }
}

fn validate_no_new_finalizers(new: &Object, old: &Object, errors: &mut ErrorList) {
    let old: BTreeSet<&str> = old.finalizers().collect();
    let new: BTreeSet<&str> = new.finalizers().collect();
    let added: Vec<String> = new.difference(&old).map(|finalizer| quote(finalizer)).collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.forbidden(&METADATA.child("finalizers"), &detail);
    }
}

fn validate_managed_fields(entries: &[Value], errors: &mut ErrorList) {
    let path = METADATA.child("managedFields");
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        match text(entry, "operation") {
            "" => errors.required(&path.child("operation"), "must not be empty"),
            "Apply" | "Update" => {}
            other => errors.not_supported(&path.child("operation"), other, &["Apply", "Update"]),
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        validate_field_manager(text(entry, "manager"), &path.child("manager"), errors);
        if text(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.too_long(&path.child("subresource"), SUBRESOURCE_MAX);
        }
    }
}

fn add_invalid(errors: &mut ErrorList, key: &str, value: &str, messages: Vec<String>) {
    for message in messages {
        errors.invalid(&METADATA.child(key), value, &message);
    }
}

/// Replaces a final dash, which is valid in a name to which a suffix will be appended. As
/// upstream's `maskTrailingDash`, also drops the character before the dash.
fn mask_trailing_dash(name: &str) -> String {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => name.to_owned(),
    }
}

fn same_time(a: &Value, b: &Value) -> bool {
    let parse = |value: &Value| value.as_str().and_then(timestamp::parse);
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

fn meta_value<'a>(object: &'a Object, key: &str) -> &'a Value {
    object.metadata().and_then(|map| map.get(key)).unwrap_or(&Value::Null)
}

fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    meta_value(object, key).as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
