//! Tests of rules that kube-apiserver refuses, with its messages.

use crate::{SchemaRequirement, check_crd_schema};
use machinery::{ErrorList, Path, Value, json};

const COSTLY: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";

/// The errors about a schema with these properties, below the path `s`.
fn messages(properties: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": properties});
    let mut errors = ErrorList::new();
    check_crd_schema(&schema, SchemaRequirement::Structural, &Path::root("s"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

/// The errors about the rules of an object with the integer `n`, below the path `r`.
fn rule_errors(rules: &Value) -> Vec<String> {
    let spec = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": rules});
    messages(&json!({"spec": spec}))
        .iter()
        .map(|it| it.replace("s.properties[spec].x-kubernetes-validations", "r"))
        .collect()
}

#[test]
fn empty_rules_and_invalid_messages_reasons_and_field_paths_are_refused() {
    assert_eq!(
        rule_errors(&json!([
            {"rule": " "},
            {"rule": "true", "message": " "},
            {"rule": "true", "message": "a\nb"},
            {"rule": "true ||\nfalse"},
            {"rule": "true", "messageExpression": " "},
            {"rule": "true", "reason": "Odd"},
            {"rule": "true", "fieldPath": ".m"},
            {"rule": "true", "fieldPath": " "},
        ])),
        [
            "r[0].rule: Required value: rule is not specified",
            r#"r[1].message: Invalid value: " ": must be non-empty if specified"#,
            r#"r[2].message: Invalid value: "a\nb": must not contain line breaks"#,
            "r[3].message: Required value: message must be specified if rule contains line breaks",
            "r[4].messageExpression: Required value: messageExpression must be non-empty if specified",
            r#"r[5].reason: Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            r#"r[6].fieldPath: Invalid value: ".m": must be a valid path"#,
            r#"r[7].fieldPath: Invalid value: " ": must be non-empty if specified"#,
            r#"r[7].fieldPath: Invalid value: " ": must be a valid path"#,
        ]
    );
}

#[test]
fn the_error_of_a_rule_that_does_not_compile_contains_the_rule() {
    assert_eq!(
        rule_errors(&json!([{"rule": "self.n <", "reason": "FieldValueInvalid"}])),
        [
            "r[0].rule: Invalid value: {\"Rule\":\"self.n \\u003c\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":\"FieldValueInvalid\",\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.n <\n | ........^"
        ]
    );
    let last = |rules: Value| {
        let messages = rule_errors(&rules);
        messages
            .iter()
            .map(|it| it.rsplit("}: ").next().unwrap_or(it).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(last(json!([{"rule": "self.n"}])), ["cel expression must evaluate to a bool"]);
    assert_eq!(
        last(json!([{"rule": "true", "messageExpression": "self.n"}])),
        ["messageExpression must evaluate to a string"]
    );
}

#[test]
fn old_self_requires_correlatable_values_and_optional_old_self_requires_its_use() {
    assert_eq!(
        rule_errors(&json!([{"rule": "true", "optionalOldSelf": false}])),
        [
            "r[0].optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"
        ]
    );
    let rule = json!([{"rule": "self == oldSelf"}]);
    let items = json!({"type": "object", "x-kubernetes-validations": rule, "properties": {
        "k": {"type": "string"}}, "required": ["k"]});
    let list = |kind| {
        json!({"l": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": if kind == "map" { json!(["k"]) } else { json!(null) },
            "items": items}})
    };
    assert_eq!(messages(&list("map")), [""; 0]);
    assert_eq!(
        messages(&list("atomic")),
        [
            r#"s.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[l]"#
        ]
    );
}

#[test]
fn estimated_costs_depend_on_the_declared_sizes() {
    let text = |size: Value| {
        json!({"l": {"type": "array", "maxItems": 1000, "items": {"type": "string",
            "maxLength": size, "x-kubernetes-validations": [{"rule": "self.matches('^a+b*$')"}]}}})
    };
    assert_eq!(messages(&text(json!(50))), [""; 0]);
    let rule = "s.properties[l].items.x-kubernetes-validations[0].rule";
    assert_eq!(
        messages(&text(json!(15_000))),
        [format!(
            "{rule}: Forbidden: estimated rule cost exceeds budget by factor of 1.200300x {COSTLY}"
        )]
    );
    assert_eq!(
        messages(&text(json!(200_000))),
        [
            format!(
                "{rule}: Forbidden: estimated rule cost exceeds budget by factor of 16.0x {COSTLY}"
            ),
            format!(
                "{rule}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            ),
            format!(
                "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of 1.6x {COSTLY}"
            )
        ]
    );
    assert_eq!(
        messages(&text(Value::Null))[0],
        format!(
            "{rule}: Forbidden: estimated rule cost exceeds budget by factor of 62.9x {COSTLY}"
        )
    );
}

#[test]
fn rules_on_values_without_a_type_are_refused() {
    assert_eq!(
        messages(&json!({"x": {"x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "true"}]}})),
        [
            "s.properties[x].x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
        ]
    );
}

#[test]
fn defaults_must_satisfy_the_rules() {
    let spec = |default: Value, rule: &str| {
        messages(&json!({"n": {"type": "integer", "default": default,
            "x-kubernetes-validations": [{"rule": rule, "optionalOldSelf":
                if rule.contains('?') { json!(true) } else { json!(null) }}]}}))
    };
    assert_eq!(spec(json!(2), "self > 1"), [""; 0]);
    assert_eq!(
        spec(json!(1), "self > 1"),
        ["s.properties[n].default: Invalid value: 1: failed rule: self > 1"]
    );
    assert_eq!(
        spec(json!(1), "oldSelf.hasValue() ? true : self > 1"),
        [
            "s.properties[n].default: Invalid value: 1: failed rule: oldSelf.hasValue() ? true : self > 1"
        ]
    );
    assert_eq!(
        spec(json!(1), "self +")[0].split(": ").take(4).collect::<Vec<_>>(),
        ["s.properties[n].default", "Invalid value", "\"integer\"", "rule compile error"]
    );
}
