//! Validation of the schemas and the selectable fields of a CRD.

use std::collections::{HashMap, HashSet};

use super::validate::{CrdChange, Strictness};
use machinery::fields::{at, flag, list, part, text};
use machinery::{ErrorList, Path, Value};
use schema::SchemaRequirement;

/// The maximum number of selectable fields of a version.
const SELECTABLE_MAX: usize = 8;

fn schema_of(version: &Value) -> Option<&Value> {
    part(at(version, &["schema"]), "openAPIV3Schema")
}

/// The schemas of a stored CRD.
#[derive(Debug)]
pub(super) struct StoredSchemas<'a> {
    /// None for a version without a schema. If several versions have the same name, the first
    /// counts.
    by_version: HashMap<&'a str, Option<&'a Value>>,
    /// Whether every version has one.
    is_complete: bool,
}

impl<'a> StoredSchemas<'a> {
    /// The schemas in a spec.
    pub(super) fn of(spec: &'a Value) -> Self {
        let versions = list(spec, "versions");
        let by_version = versions.iter().rev().map(|it| (text(it, "name"), schema_of(it)));
        Self {
            by_version: by_version.collect(),
            is_complete: versions.iter().all(|it| schema_of(it).is_some()),
        }
    }
}

/// Requires that a version has a schema. In v1beta1, and if a version of the stored CRD has none,
/// only served versions that do not preserve unknown fields need one.
pub(super) fn require_schema(
    change: CrdChange<'_>,
    version: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if schema_of(version).is_some() {
        return;
    }
    let path = path.child("schema");
    let path = path.child("openAPIV3Schema");
    // The rule is not enforced for stored CRDs without a schema.
    let had_none = change.old.is_some_and(|old| !old.is_complete);
    if change.strictness == Strictness::Full && !had_none {
        errors.required(&path, "");
    } else if !flag(change.spec, "preserveUnknownFields") && flag(version, "served") {
        errors.required(&path, "because otherwise all fields are pruned");
    }
}

/// Refuses defaults in the schemas of a CRD that preserves unknown fields.
pub(super) fn require_pruning_for_defaults(spec: &Value, errors: &mut ErrorList) {
    let mut schemas = list(spec, "versions").iter().filter_map(schema_of);
    if flag(spec, "preserveUnknownFields") && schemas.any(schema::uses_defaults) {
        let path = Path::root("spec");
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&path.child("preserveUnknownFields"), true, detail);
    }
}

/// Validates the schema of a version, unless it is that of the stored CRD. `path` is the path of
/// `schema`.
pub(super) fn validate(
    change: CrdChange<'_>,
    version: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(schema) = schema_of(version) else { return };
    let old = change.old.and_then(|old| *old.by_version.get(text(version, "name"))?);
    if old == Some(schema) {
        return;
    }
    let path = path.child("openAPIV3Schema");
    if has_status(version) {
        schema::check_root_with_status(schema, &path, errors);
    }
    let is_loose = change.strictness == Strictness::Lenient
        && flag(change.spec, "preserveUnknownFields")
        && !schema::uses_defaults(schema)
        && !schema::uses_extensions(schema);
    let requirement =
        if is_loose { SchemaRequirement::Loose } else { SchemaRequirement::Structural };
    schema::check_crd_schema(schema, requirement, &path, errors);
}

fn has_status(version: &Value) -> bool {
    part(at(version, &["subresources"]), "status").is_some()
}

/// Validates the fields of a version that selectors may name.
pub(super) fn validate_selectable_fields(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = schema_of(version) else {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.invalid(path, "", detail);
        return;
    };
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let here = path.index(index);
        let here = here.child("jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.required(&here, "");
            continue;
        }
        let kind = match schema::field_type(schema, json_path) {
            Ok(kind) => kind,
            Err(error) => {
                errors.invalid(&here, json_path, &format!("is an invalid path: {error}"));
                continue;
            }
        };
        if json_path == ".metadata" || json_path.starts_with(".metadata.") {
            errors.invalid(&here, json_path, "must not point to fields in metadata");
        }
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&here, json_path, detail);
        }
        if seen.contains(&json_path) {
            errors.duplicate(&here, json_path);
        } else {
            seen.insert(json_path);
        }
    }
    if seen.len() > SELECTABLE_MAX {
        errors.too_many(path, seen.len(), SELECTABLE_MAX);
    }
}
