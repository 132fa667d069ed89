//! Validates the schema of a CRD.
//!
//! A schema must be *structural*: every field has its type outside of `allOf`, `anyOf`, `oneOf` and
//! `not`, so that pruning and defaulting do not depend on values. As upstream, there are three
//! checks: of the [`structure`], of the [`defaults`] (if the structure is valid), and of single
//! [`keywords`], which also compiles the [`rules`] (if the other two found no error).

mod structure;
mod defaults;
mod keywords;
mod lists;
mod rules;

use crate::json_schema::JsonSchema;
use crate::structural::Node;
use machinery::{ErrorList, Path, Value};

/// The requirements on a schema.
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
    // A schema with unsupported keywords cannot be compiled; `keywords::check` reports its errors.
    let mut valid_node = None;
    if requirement == SchemaRequirement::Structural && !source.any(&has_unsupported_keywords) {
        let node = Node::compile(source);
        let mut found = ErrorList::new();
        structure::check(source, path, &mut found);
        if found.is_empty() {
            defaults::check(source, &node, path, &mut found);
        }
        if found.is_empty() {
            valid_node = Some(node);
        }
        errors.extend(found);
    }
    keywords::check(source, valid_node.as_ref(), path, errors);
}

fn has_unsupported_keywords(source: JsonSchema<'_>) -> bool {
    keywords::UNSUPPORTED.iter().any(|keyword| source.value(keyword).is_some())
        || source.value("items").is_some_and(Value::is_array)
        || source.value("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false))
}

/// The keywords that are allowed at the root with a status subresource, and their Go names, which
/// the error lists.
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

/// The additional rules for the root of a schema with a status subresource. Updates of `/status`
/// are validated only by `properties.status`, so no other keyword may constrain the status.
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
