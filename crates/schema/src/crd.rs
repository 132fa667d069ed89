//! Validates the schema of a CRD, before any object is validated by it.
//!
//! A schema must be *structural*: every field has its type outside of `allOf`, `anyOf`, `oneOf` and
//! `not`, so that pruning and defaulting do not depend on values. As upstream, it runs three
//! checks: of the [`structure`], of [`defaults`] (if the structure is valid), and of single
//! [`keywords`]; the last compiles the [`rules`] (if both others found nothing).

mod structure;
mod defaults;
mod keywords;
mod lists;
mod rules;

use crate::json_schema::JsonSchema;
use crate::structural::Node;
use machinery::{ErrorList, Path, Value};

/// What a schema must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaRequirement {
    /// The requirement of v1: the schema is structural.
    Structural,
    /// The requirement of v1beta1 for CRDs that keep unknown fields: the keywords are consistent.
    Loose,
}

/// Validates the schema of a CRD; `path` is that of `openAPIV3Schema`.
pub fn check_crd_schema(
    schema: &Value,
    requirement: SchemaRequirement,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(source) = JsonSchema::of(schema) else { return };
    if source.flag("nullable") {
        errors.forbidden(&path.child("nullable"), "nullable cannot be true at the root");
    }
    // A schema that is not even readable as a structural one gets its errors from the keywords.
    let mut sound = None;
    if requirement == SchemaRequirement::Structural && !source.any(&has_unsupported_keywords) {
        let node = Node::compile(source);
        let mut found = ErrorList::new();
        structure::check(source, path, &mut found);
        if found.is_empty() {
            defaults::check(source, &node, path, &mut found);
        }
        if found.is_empty() {
            sound = Some(node);
        }
        errors.extend(found);
    }
    keywords::check(source, sound.as_ref(), path, errors);
}

fn has_unsupported_keywords(source: JsonSchema<'_>) -> bool {
    keywords::UNSUPPORTED.iter().any(|keyword| source.value(keyword).is_some())
        || source.value("items").is_some_and(Value::is_array)
        || source.value("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
}

/// Keywords that do not get in the way of validating `status` by itself, and their Go names, which the
/// error lists.
const AT_ROOT_WITH_STATUS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

/// The further rules for the root of a schema with a status subresource: updates of `/status` are
/// validated by `properties.status` alone, so no other keyword may constrain the status.
pub fn check_root_with_status(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(source) = JsonSchema::of(schema) else { return };
    let kind = source.text("type");
    if !kind.is_empty() && kind != "object" {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.invalid(&path.child("type"), kind, detail);
        return;
    }
    let is_allowed = |keyword: &str| AT_ROOT_WITH_STATUS.iter().any(|(it, _)| *it == keyword);
    if source.map().keys().any(|it| source.non_empty(it).is_some() && !is_allowed(it)) {
        let names = AT_ROOT_WITH_STATUS.map(|(_, name)| name).join(" ");
        let detail = format!(
            "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.invalid(path, schema.clone(), &detail);
    }
}

#[cfg(test)]
mod tests;
