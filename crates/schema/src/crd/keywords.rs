//! Checks each keyword of a schema by itself.

use super::lists;
use super::rules::{self, CrdErrors, Scope};
use crate::json_schema::{COMBINATIONS, JsonSchema};
use crate::structural::Node;
use machinery::{ErrorList, Path, Value};

/// Keywords of JSON schema that Kubernetes does not support.
pub(super) const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Reports keywords that are unsupported or have invalid values. `node` is the compiled schema if
/// it is valid otherwise; only then are rules compiled.
pub(super) fn check(
    source: JsonSchema<'_>,
    node: Option<&Node>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut found = CrdErrors::default();
    let scope = node.map(Scope::root);
    let cx = Context { is_root: true, scope, ..Context::default() };
    check_node(source, cx, path, &mut found);
    found.report(path, errors);
}

/// The context from the enclosing schemas.
#[derive(Debug, Clone, Copy, Default)]
struct Context<'a> {
    is_root: bool,
    /// Whether the schema is inside of `apiVersion`, `kind` or `metadata` of a resource.
    inside_meta: bool,
    /// The reason why defaults are forbidden, if they are.
    no_defaults: Option<&'a str>,
    /// The scope of rules; None inside of `allOf`, `anyOf`, `oneOf` and `not`.
    scope: Option<Scope<'a>>,
}

fn check_node(source: JsonSchema<'_>, cx: Context<'_>, path: &Path<'_>, found: &mut CrdErrors) {
    let before = found.schema.len();
    let decl = cx.scope.and_then(Scope::declare);
    let scope = cx.scope.map(|it| it.declared(decl.as_ref()));
    check_own(source, cx, path, &mut found.schema);
    if let Some(pattern) = Some(source.text("pattern")).filter(|it| !it.is_empty()) {
        found.add_pattern(pattern, &path.child("pattern"));
    }
    let below = Context { is_root: false, scope: None, ..cx };

    if let Some(additional) = source.value("additionalProperties") {
        let path = path.child("additionalProperties");
        if source.non_empty("properties").is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.schema.forbidden(&path, detail);
        }
        if let Some(schema) = JsonSchema::of(additional) {
            // Upstream: pruning such a default without an actual value would be ambiguous.
            let why = "inside additionalProperties applying to object metadata";
            let no_defaults = if cx.inside_meta { Some(why) } else { below.no_defaults };
            let scope = scope.and_then(|it| it.additional(source));
            check_node(schema, Context { no_defaults, scope, ..below }, &path, found);
        }
    }
    let is_resource = cx.is_root || source.flag("x-kubernetes-embedded-resource");
    let properties = path.child("properties");
    for (name, property) in source.properties() {
        let is_meta = is_resource && matches!(name, "apiVersion" | "kind" | "metadata");
        let why = format!("in top-level {name}");
        let no_defaults =
            if is_meta && cx.is_root { Some(why.as_str()) } else { below.no_defaults };
        let inside_meta = is_meta || below.inside_meta;
        let scope = scope.and_then(|it| it.property(source, name));
        let below = Context { is_root: false, inside_meta, no_defaults, scope };
        check_node(property, below, &properties.key(name), found);
    }
    if let Some(not) = source.schema("not") {
        check_node(not, below, &path.child("not"), found);
    }
    for keyword in COMBINATIONS {
        let list = path.child(keyword);
        for (index, schema) in source.schemas(keyword).enumerate() {
            check_node(schema, below, &list.index(index), found);
        }
    }
    if let Some(items) = source.schema("items") {
        let scope = scope.and_then(|it| it.items(source, path));
        check_node(items, Context { scope, ..below }, &path.child("items"), found);
    }
    lists::check(source, path, &mut found.schema);
    rules::check_texts(source, path, &mut found.schema);
    // Rules are only checked if the keywords that they depend on are valid.
    if found.schema.len() == before
        && let Some(scope) = scope
    {
        rules::check_programs(source, scope, path, found);
    }
}

/// Checks the keywords of this schema, not those below.
fn check_own(source: JsonSchema<'_>, cx: Context<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = source.text("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &TYPES);
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(&path.child("type"), detail);
    }
    if let Some(why) = cx.no_defaults.filter(|_| source.value("default").is_some()) {
        errors.forbidden(&path.child("default"), &format!("must not be set {why}"));
    }
    for keyword in UNSUPPORTED.into_iter().filter(|it| source.value(it).is_some()) {
        errors.forbidden(&path.child(keyword), &format!("{keyword} is not supported"));
    }
    if source.value("items").is_some_and(Value::is_array) {
        errors.forbidden(&path.child("items"), "items must be a schema object and not an array");
    }
    if cx.inside_meta && source.flag("x-kubernetes-embedded-resource") {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.forbidden(&path, "must not be used inside of resource meta");
    }
    if source.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&path.child("uniqueItems"), detail);
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if source.value(preserve) == Some(&Value::Bool(false)) {
        errors.invalid(&path.child(preserve), false, "must be true or undefined");
    }
}
