//! Tests of schemas that kube-apiserver refuses, with its messages.

use super::*;
use machinery::json;

/// The errors about a schema, sorted, below the path `s`.
fn messages(schema: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    check_crd_schema(schema, SchemaRequirement::Structural, &Path::root("s"), &mut errors);
    let mut messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    messages.sort();
    messages
}

/// The errors about a schema with these properties.
fn of_properties(properties: &Value) -> Vec<String> {
    messages(&json!({"type": "object", "properties": properties}))
}

#[test]
fn fields_need_a_type_and_lists_need_items() {
    assert_eq!(
        of_properties(&json!({"spec": {"properties": {"a": {"description": "no type"}}},
            "l": {"type": "array"}})),
        [
            "s.properties[l].items: Required value: must be specified",
            "s.properties[spec].properties[a].type: Required value: must not be empty for specified object fields",
            "s.properties[spec].type: Required value: must not be empty for specified object fields",
        ]
    );
    assert_eq!(
        messages(&json!({"type": "array", "items": {}, "nullable": true})),
        [
            "s.items.type: Required value: must not be empty for specified array items",
            "s.nullable: Forbidden: nullable cannot be true at the root",
            r#"s.type: Invalid value: "array": must be object at the root"#,
        ]
    );
}

#[test]
fn unsupported_keywords_are_forbidden() {
    assert_eq!(
        of_properties(&json!({"spec": {"type": "object", "properties": {
            "a": {"type": "array", "uniqueItems": true, "items": {"type": "string"}},
            "b": {"type": "object", "additionalProperties": false},
            "c": {"$ref": "#/x", "type": "object"}}}})),
        [
            "s.properties[spec].properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            "s.properties[spec].properties[c].$ref: Forbidden: $ref is not supported",
        ]
    );
}

#[test]
fn types_and_unspecified_fields_below_any_of_and_not_are_refused() {
    assert_eq!(
        of_properties(&json!({"spec": {"type": "object", "anyOf": [
            {"type": "object", "properties": {"a": {"minimum": 1}}}, {"required": ["b"]}]}})),
        ["s.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",]
    );
    assert_eq!(
        messages(&json!({"type": "object", "not": {"properties": {"a": {"minimum": 1}}}})),
        ["s.properties[a]: Required value: because it is defined in s.not.properties[a]"]
    );
}

#[test]
fn the_two_spellings_of_int_or_string_are_structural() {
    let any_of = json!([{"type": "integer"}, {"type": "string"}]);
    assert_eq!(
        of_properties(&json!({
            "a": {"x-kubernetes-int-or-string": true, "anyOf": any_of},
            "b": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": any_of}, {"minimum": 1}]},
            "c": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+%?$"}})),
        [""; 0]
    );
}

#[test]
fn defaults_must_be_valid() {
    assert_eq!(
        of_properties(&json!({"spec": {"type": "object", "properties": {
            "n": {"type": "integer", "default": "many"},
            "m": {"type": "integer", "minimum": 3, "default": 1},
            "o": {"type": "object", "default": {"x": 1}}}}})),
        [
            "s.properties[spec].properties[m].default: Invalid value: 1:  in body should be greater than or equal to 3",
            r#"s.properties[spec].properties[n].default: Invalid value: "string":  in body must be of type integer: "string""#,
            r#"s.properties[spec].properties[o].default: Invalid value: {"x":1}: must not have unknown fields"#,
        ]
    );
    assert_eq!(
        of_properties(&json!({"kind": {"type": "string", "default": "x"}})),
        ["s.properties[kind].default: Forbidden: must not be set in top-level kind"]
    );
}

#[test]
fn list_types_must_be_consistent_with_their_items() {
    let items = json!({"type": "object", "properties": {"n": {"type": "string"}}});
    assert_eq!(
        of_properties(&json!({
            "a": {"type": "array", "x-kubernetes-list-type": "map", "items": items},
            "b": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["zz"], "items": items},
            "c": {"type": "array", "x-kubernetes-list-type": "bag", "items": {"type": "string"}},
            "d": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
            "e": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"], "items": items}})),
        [
            "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            r#"s.properties[b].x-kubernetes-list-map-keys: Invalid value: ["zz"]: entries must all be names of item properties"#,
            r#"s.properties[c].x-kubernetes-list-type: Unsupported value: "bag": supported values: "atomic", "set", "map""#,
            "s.properties[d].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            "s.properties[e].items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ]
    );
}

#[test]
fn an_invalid_pattern_is_refused() {
    assert_eq!(
        of_properties(&json!({"a": {"type": "string", "pattern": "["}})),
        [
            r#"s.properties[a].pattern: Invalid value: "[": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`"#
        ]
    );
}

#[test]
fn only_the_name_of_metadata_may_be_restricted() {
    let name = json!({"type": "string", "maxLength": 5});
    assert_eq!(
        of_properties(&json!({"kind": {"type": "integer"}, "metadata": {"type": "object",
            "properties": {"name": name, "labels": {"type": "object"}}}})),
        [
            r#"s.properties[kind].type: Invalid value: "integer": must be string"#,
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ]
    );
    assert_eq!(
        of_properties(&json!({"metadata": {"type": "object", "properties": {"name": name}}})),
        [""; 0]
    );
}

#[test]
fn with_a_status_subresource_the_root_is_restricted() {
    let mut errors = ErrorList::new();
    let schema = json!({"type": "object", "description": "x", "anyOf": [{"required": ["status"]}]});
    check_root_with_status(&schema, &Path::root("s"), &mut errors);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].detail.starts_with("only [Description Type Format"));
}

#[test]
fn the_memory_of_the_patterns_of_a_schema_is_limited() {
    // Each of them needs some megabytes once it is compiled.
    let pattern =
        |n: usize| json!({"type": "string", "pattern": format!("\\b[\\p{{L}}]{{1,60}}x{n}")});
    let properties: machinery::Map<String, Value> =
        (0..200).map(|n| (format!("p{n:03}"), pattern(n))).collect();
    let found = of_properties(&Value::Object(properties.clone()));
    let refused = found.iter().filter(|it| it.contains("need more memory than")).count();
    assert!((150..200).contains(&refused), "{refused}");
    assert!(found[0].starts_with("s.properties[p0"), "{}", found[0]);
    // The same pattern is compiled once.
    let same = properties.keys().map(|name| (name.clone(), pattern(7))).collect();
    assert_eq!(of_properties(&Value::Object(same)), Vec::<String>::new());
}

#[test]
fn a_pattern_that_is_too_large_is_reported_with_its_path() {
    let found = of_properties(&json!({"a": {"type": "string", "pattern": "\\b[\\p{L}]{1,900}x"}}));
    assert_eq!(
        found,
        [
            r#"s.properties[a].pattern: Invalid value: "\\b[\\p{L}]{1,900}x": must be a regular expression that this server can compile: error parsing regexp: expression too large: it needs more than 4194304 bytes"#
        ]
    );
}

#[test]
fn long_repetitions_of_unicode_classes_are_accepted() {
    let patterns = [
        r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]{1,128}$",
        r"^([\p{L}\p{Z}\p{N}_.:/=+\-@]{0,256})$",
        r"^\P{C}{1,1000}$",
        r"^[\p{L}\p{M}\p{S}\p{N}\p{P}]{1,512}$",
    ];
    let mut properties = machinery::Map::new();
    for (n, pattern) in patterns.iter().enumerate() {
        properties.insert(format!("p{n}"), json!({"type": "string", "pattern": pattern}));
        let rule = format!("self.matches('{}')", pattern.replace('\\', r"\\"));
        let rules = json!([{ "rule": rule }]);
        let matched = json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": rules});
        properties.insert(format!("m{n}"), matched);
    }
    for n in 30..94 {
        let pattern = format!(r"^[\p{{L}}\p{{N}}_.-]{{1,{n}}}$");
        properties.insert(format!("q{n}"), json!({"type": "string", "pattern": pattern}));
    }
    assert_eq!(of_properties(&Value::Object(properties)), Vec::<String>::new());
}

#[test]
fn the_memory_of_the_patterns_in_rules_is_limited() {
    let rule = |n: usize| json!({"rule": format!("self.matches('\\\\b[\\\\p{{L}}]{{1,10}}x{n}')")});
    let rules: Value = (0..100).map(rule).collect();
    let found = of_properties(&json!({"a": {"type": "string", "maxLength": 10,
        "x-kubernetes-validations": rules}}));
    assert!(found.iter().any(|it| it.contains("need more memory than")), "{}", found.len());
}
