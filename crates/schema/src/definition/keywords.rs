//! Does each keyword of a schema make sense by itself?

use super::lists;
use crate::source::{COMBINATIONS, Source};
use machinery::{Faults, Path, Value};

/// Keywords of JSON schema that are not served.
pub(super) const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// Finds keywords that are not served, or not like this.
pub(super) fn check(source: Source<'_>, path: &Path<'_>, faults: &mut Faults) {
    check_node(source, Context { is_root: true, ..Context::default() }, path, faults);
}

/// What the schemas around this one say about it.
#[derive(Debug, Clone, Copy, Default)]
struct Context<'a> {
    is_root: bool,
    /// Inside of `apiVersion`, `kind` or `metadata` of a resource.
    inside_meta: bool,
    /// Why there may be no defaults.
    no_defaults: Option<&'a str>,
}

fn check_node(source: Source<'_>, cx: Context<'_>, path: &Path<'_>, faults: &mut Faults) {
    check_own(source, cx, path, faults);
    let below = Context { is_root: false, ..cx };

    if let Some(additional) = source.value("additionalProperties") {
        let path = path.child("additionalProperties");
        if source.stated("properties").is_some() && *additional != Value::Bool(true) {
            faults.forbidden(&path, "additionalProperties and properties are mutual exclusive");
        }
        if let Some(schema) = Source::of(additional) {
            // A map of unknown keys cannot be pruned without a value, so it has no default there.
            let why = "inside additionalProperties applying to object metadata";
            let no_defaults = if cx.inside_meta { Some(why) } else { below.no_defaults };
            check_node(schema, Context { no_defaults, ..below }, &path, faults);
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
        let below = Context { is_root: false, inside_meta, no_defaults };
        check_node(property, below, &properties.key(name), faults);
    }
    if let Some(not) = source.schema("not") {
        check_node(not, below, &path.child("not"), faults);
    }
    for keyword in COMBINATIONS {
        let list = path.child(keyword);
        for (index, schema) in source.schemas(keyword).enumerate() {
            check_node(schema, below, &list.index(index), faults);
        }
    }
    if let Some(items) = source.schema("items") {
        check_node(items, below, &path.child("items"), faults);
    }
    lists::check(source, path, faults);
}

/// Checks the keywords of this schema, not those below.
fn check_own(source: Source<'_>, cx: Context<'_>, path: &Path<'_>, faults: &mut Faults) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = source.text("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        faults.not_supported(&path.child("type"), kind, &TYPES);
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        faults.forbidden(&path.child("type"), detail);
    }
    if let Some(why) = cx.no_defaults.filter(|_| source.value("default").is_some()) {
        faults.forbidden(&path.child("default"), &format!("must not be set {why}"));
    }
    for keyword in UNSUPPORTED.into_iter().filter(|it| source.value(it).is_some()) {
        faults.forbidden(&path.child(keyword), &format!("{keyword} is not supported"));
    }
    if source.value("items").is_some_and(Value::is_array) {
        faults.forbidden(&path.child("items"), "items must be a schema object and not an array");
    }
    if cx.inside_meta && source.flag("x-kubernetes-embedded-resource") {
        let path = path.child("x-kubernetes-embedded-resource");
        faults.forbidden(&path, "must not be used inside of resource meta");
    }
    if source.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        faults.forbidden(&path.child("uniqueItems"), detail);
    }
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if source.value(preserve) == Some(&Value::Bool(false)) {
        faults.invalid(&path.child(preserve), false, "must be true or undefined");
    }
}
