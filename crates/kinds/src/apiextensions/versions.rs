//! Validation of the versions of a CRD.
//!
//! Upstream's internal type has one schema (`spec.validation`), one set of subresources and one
//! list of columns for all versions that agree on it, and its errors name these places even though
//! a v1 manifest has no such fields. So do ours.

use std::collections::HashSet;

use super::schemas;
use super::validate::CrdChange;
use machinery::field_path::ErrorType;
use machinery::fields::{at, flag, list, part, text};
use machinery::json_path::JsonPath;
use machinery::{ErrorList, Path, Value, names};

/// The fields that upstream's internal type has only once if all versions agree: (name in a
/// version, name in the spec).
const COMMON_FIELDS: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Validates `spec.versions`, except for what is identical in all of them.
pub(super) fn validate(change: CrdChange<'_>, errors: &mut ErrorList) {
    let versions = list(change.spec, "versions");
    let root = Path::root("spec");
    let path = root.child("versions");
    for (index, version) in versions.iter().enumerate() {
        schemas::require_schema(change, version, &path.index(index), errors);
    }
    schemas::require_pruning_for_defaults(change.spec, errors);
    let differing: Vec<&str> =
        COMMON_FIELDS.iter().map(|(key, _)| *key).filter(|key| !agree_on(versions, key)).collect();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        validate_label(text(version, "name"), &path.child("name"), errors);
        validate_deprecation(version, &path.child("deprecationWarning"), errors);
        for key in &differing {
            validate_part(key, change, version, &path.child(key), errors);
        }
    }
    let mut names = HashSet::new();
    if !versions.iter().all(|it| names.insert(text(it, "name"))) {
        add_error_with_all_versions(
            change.spec,
            "must contain unique version names",
            &path,
            errors,
        );
    }
    if versions.iter().filter(|it| flag(it, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        add_error_with_all_versions(change.spec, detail, &path, errors);
    }
    // Upstream: the name of the first version is also at `spec.version`, where its errors are
    // repeated.
    let first = versions.first().map(|it| text(it, "name")).unwrap_or_default();
    if !first.is_empty() {
        validate_label(first, &root.child("version"), errors);
    }
}

/// Validates what is identical in all versions: each error is reported once, at the path of the
/// spec.
pub(super) fn validate_identical_in_all_versions(change: CrdChange<'_>, errors: &mut ErrorList) {
    let versions = list(change.spec, "versions");
    let Some(version) = versions.first() else { return };
    let root = Path::root("spec");
    for (key, top) in COMMON_FIELDS.iter().filter(|(key, _)| agree_on(versions, key)) {
        validate_part(key, change, version, &root.child(top), errors);
    }
}

fn validate_label(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = names::dns1035_label(name);
    if !messages.is_empty() {
        errors.invalid(path, name, &messages.join(","));
    }
}

/// Whether a field is the same in all versions.
fn agree_on(versions: &[Value], key: &str) -> bool {
    versions.iter().all(|it| part(it, key) == part(&versions[0], key))
}

/// Adds an error about all versions at once, shown as the fields of Go structs.
fn add_error_with_all_versions(
    spec: &Value,
    detail: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let versions = list(spec, "versions");
    let differing: Vec<&str> =
        COMMON_FIELDS.iter().map(|(key, _)| *key).filter(|key| !agree_on(versions, key)).collect();
    let shown: Vec<String> = versions
        .iter()
        .map(|version| {
            let own = |key: &str| match part(version, key) {
                Some(value) if differing.contains(&key) => value.to_string(),
                _ => "null".to_owned(),
            };
            format!(
                r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":{},"Subresources":{},"AdditionalPrinterColumns":{},"SelectableFields":{}}}"#,
                Value::from(text(version, "name")),
                flag(version, "served"),
                flag(version, "storage"),
                flag(version, "deprecated"),
                at(version, &["deprecationWarning"]),
                own("schema"),
                own("subresources"),
                own("additionalPrinterColumns"),
                own("selectableFields"),
            )
        })
        .collect();
    let detail = format!("[{}]: {detail}", shown.join(","));
    errors.add(ErrorType::Invalid, path, None, &detail);
}

fn validate_part(
    key: &str,
    change: CrdChange<'_>,
    version: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    match key {
        "schema" => schemas::validate(change, version, path, errors),
        "subresources" => validate_scale(at(version, &["subresources"]), path, errors),
        "additionalPrinterColumns" => {
            for (index, column) in list(version, key).iter().enumerate() {
                validate_column(column, &path.index(index), errors);
            }
        }
        _ => schemas::validate_selectable_fields(version, path, errors),
    }
}

fn validate_deprecation(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(warning) = part(version, "deprecationWarning").and_then(Value::as_str) else { return };
    if !flag(version, "deprecated") {
        errors.invalid(path, warning, "can only be set for deprecated versions");
        return;
    }
    if warning.len() > 256 {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, sign)| sign.is_control()) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        );
        errors.invalid(path, warning, &detail);
    }
}

fn validate_scale(subresources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(scale) = part(subresources, "scale") else { return };
    let path = path.child("scale");
    for (key, below) in [
        ("specReplicasPath", &[".spec"][..]),
        ("statusReplicasPath", &[".status"]),
        ("labelSelectorPath", &[".spec", ".status"]),
    ] {
        let value = text(scale, key);
        let path = path.child(key);
        if value.is_empty() {
            if key != "labelSelectorPath" {
                errors.required(&path, "");
            }
            continue;
        }
        let is_below =
            |root: &&str| value.strip_prefix(*root).is_some_and(|rest| rest.starts_with('.'));
        if has_dot(value, &path, errors) && !below.iter().any(is_below) {
            let either = if below.len() > 1 { "either " } else { "" };
            let detail = format!("should be a json path under {either}{}", below.join(" or "));
            errors.invalid(&path, value, &detail);
        }
    }
}

/// Checks that a path begins with a dot, and adds an error if not.
fn has_dot(value: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let has_dot = value.starts_with('.');
    if !has_dot {
        errors.invalid(path, value, "must be a simple json path starting with .");
    }
    has_dot
}

fn validate_column(column: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] =
        ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    if text(column, "name").is_empty() {
        errors.required(&path.child("name"), "");
    }
    let kind = text(column, "type");
    let detail = format!("must be one of {}", TYPES.join(","));
    if kind.is_empty() {
        errors.required(&path.child("type"), &detail);
    } else if !TYPES.contains(&kind) {
        errors.invalid(&path.child("type"), kind, &detail);
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.invalid(&path.child("format"), format, &detail);
    }
    let json_path = text(column, "jsonPath");
    let path = path.child("JSONPath");
    if json_path.is_empty() {
        errors.required(&path, "");
    } else {
        has_dot(json_path, &path, errors);
    }
}

/// The columns of a version up to the first whose path cannot be parsed. Upstream accepts such a
/// path, and then shows only the columns before it.
pub(super) fn readable_columns(version: &Value) -> impl Iterator<Item = (&Value, JsonPath)> {
    list(version, "additionalPrinterColumns")
        .iter()
        .map_while(|column| Some((column, JsonPath::parse(text(column, "jsonPath")).ok()?)))
}
