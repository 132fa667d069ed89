//! Tests of the evaluation of rules.

use crate::Structural;
use machinery::{ErrorList, Map, Value, json};

/// The errors and then the warnings of the rules for an object that is created or updated.
fn check(spec: &Value, old: Option<&Value>, new: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let whole = |value: &Value| object(json!({"spec": value}));
    evaluate(&Structural::compile(&schema), old.map(whole).as_ref(), &whole(new))
}

fn evaluate(
    schema: &Structural,
    old: Option<&Map<String, Value>>,
    new: &Map<String, Value>,
) -> Vec<String> {
    let mut errors = ErrorList::new();
    let warnings = schema.validate_rules(new, old, &mut errors);
    let warnings = warnings.into_iter().map(|it| format!("warning: {it}"));
    errors.iter().map(ToString::to_string).chain(warnings).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

/// A schema of integers `a` and `b`, with rules.
fn pair(rules: &Value) -> Value {
    json!({"type": "object", "x-kubernetes-validations": rules,
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_failed_rule_shows_its_message_or_itself() {
    let schema =
        pair(&json!([{"rule": " self.a < self.b "}, {"rule": "self.b > 0", "message": " no "}]));
    assert_eq!(check(&schema, None, &json!({"a": 1, "b": 2})), NOTHING);
    assert_eq!(
        check(&schema, None, &json!({"a": 1, "b": 0})),
        ["spec: Invalid value: failed rule: self.a < self.b", "spec: Invalid value: no"]
    );
}

#[test]
fn an_error_contains_the_value_of_a_scalar() {
    let schema = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == 'a'"}]});
    assert_eq!(
        check(&schema, None, &json!("b")),
        [r#"spec: Invalid value: "b": failed rule: self == 'a'"#]
    );
}

#[test]
fn rules_of_the_root_can_read_type_and_name() {
    let schema = Structural::compile(&json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.kind == 'W' && self.metadata.name == 'n'", "message": "at the root"}]}));
    let new = |name| object(json!({"kind": "W", "apiVersion": "v1", "metadata": {"name": name}}));
    assert_eq!(evaluate(&schema, None, &new("n")), NOTHING);
    assert_eq!(evaluate(&schema, None, &new("m")), ["<nil>: Invalid value: at the root"]);
}

#[test]
fn a_message_expression_must_yield_one_non_empty_line() {
    let rule = |expression: &str| {
        pair(&json!([{"rule": "false", "message": "plain", "messageExpression": expression}]))
    };
    for (expression, shown) in [
        ("' computed '", "computed"),
        ("'two\\nlines'", "plain"),
        ("''", "plain"),
        ("[''][1]", "plain"),
        ("'x'.replace('x', 'y')", "y"),
    ] {
        let expected = format!("spec: Invalid value: {shown}");
        assert_eq!(check(&rule(expression), None, &json!({})), [expected], "{expression}");
    }
}

#[test]
fn a_reason_and_a_field_path_change_the_error() {
    let schema = pair(&json!([
        {"rule": "false", "message": "m", "reason": "FieldValueRequired", "fieldPath": ".a"},
        {"rule": "false", "message": "m", "reason": "FieldValueForbidden", "fieldPath": "['b']"},
        {"rule": "false", "message": "m", "reason": "FieldValueDuplicate"}]));
    assert_eq!(
        check(&schema, None, &json!({})),
        ["spec.a: Required value: m", "spec.b: Forbidden: m", "spec: Duplicate value"]
    );
}

#[test]
fn a_transition_rule_needs_an_old_value() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self >= oldSelf", "message": "shrinks"}]});
    assert_eq!(check(&schema, None, &json!(1)), NOTHING);
    assert_eq!(check(&schema, Some(&json!(null)), &json!(1)), NOTHING);
    assert_eq!(check(&schema, Some(&json!(2)), &json!(1)), ["spec: Invalid value: 1: shrinks"]);
}

#[test]
fn an_optional_old_self_has_no_value_on_create() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() ? oldSelf.value() < self : self == 0", "optionalOldSelf": true,
         "message": "m"}]});
    assert_eq!(check(&schema, None, &json!(0)), NOTHING);
    assert_eq!(check(&schema, None, &json!(1)), ["spec: Invalid value: 1: m"]);
    assert_eq!(check(&schema, Some(&json!(0)), &json!(1)), NOTHING);
    assert_eq!(check(&schema, Some(&json!(1)), &json!(1)), ["spec: Invalid value: 1: m"]);
}

#[test]
fn items_of_a_list_map_are_correlated_by_key() {
    let schema = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object",
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "m"}]}});
    let old = json!([{"k": "x", "v": 1}, {"k": "y", "v": 5}]);
    let new = json!([{"k": "y", "v": 4}, {"k": "z", "v": 0}, {"k": "x", "v": 2}]);
    assert_eq!(check(&schema, Some(&old), &new), ["spec[0]: Invalid value: m"]);
}

#[test]
fn errors_of_unchanged_values_are_warnings() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]},
        "l": {"type": "array", "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 5"}]}}}});
    let old = json!({"a": 1, "l": [2]});
    assert_eq!(
        check(&schema, Some(&old), &json!({"a": 1, "l": [2], "b": 1})),
        [
            "warning: spec.a: Invalid value: 1: failed rule: self > 5",
            "warning: spec.l[0]: Invalid value: 2: failed rule: self > 5"
        ]
    );
    assert_eq!(
        check(&schema, Some(&old), &json!({"a": 2, "l": [2, 7]})),
        [
            "spec.a: Invalid value: 2: failed rule: self > 5",
            "spec.l[0]: Invalid value: 2: failed rule: self > 5"
        ]
    );
}

#[test]
fn rules_are_not_evaluated_on_null() {
    let schema = json!({"type": "integer", "nullable": true,
        "x-kubernetes-validations": [{"rule": "false"}]});
    assert_eq!(check(&schema, None, &json!(null)), NOTHING);
}

#[test]
fn an_evaluation_that_fails_names_the_rule_and_the_type() {
    let schema = pair(&json!([{"rule": "self.a / 0 > 1"}, {"rule": "self.b > 1", "message": "m"}]));
    assert_eq!(
        check(&schema, None, &json!({"a": 1})),
        [
            r#"spec: Invalid value: "object": division by zero evaluating rule: self.a / 0 > 1"#,
            r#"spec: Invalid value: "object": no such key: b evaluating rule: m"#
        ]
    );
    let either = json!({"x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{"rule": "self > 1"}]});
    assert_eq!(
        check(&either, None, &json!("x")),
        [
            r#"spec: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self > 1"#
        ]
    );
}

#[test]
fn rules_are_not_evaluated_on_an_invalid_object() {
    let schema =
        json!({"type": "object", "properties": {"spec": pair(&json!([{"rule": "false"}]))}});
    let mut errors = ErrorList::new();
    errors.required(&machinery::Path::root("x"), "");
    Structural::compile(&schema).validate_rules(&object(json!({"spec": {}})), None, &mut errors);
    assert_eq!(
        errors[1].to_string(),
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
    );
    assert_eq!(errors.len(), 2);
}

/// A list of integers with a rule on the whole.
fn numbers(rule: &str) -> Value {
    json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule}]})
}

#[test]
fn the_cost_of_one_rule_is_limited() {
    let many: Vec<u32> = (0..4000).collect();
    let rule = "self.all(x, self.all(y, self.all(z, x + y + z >= 0)))";
    assert_eq!(
        check(&numbers(rule), None, &json!(many)),
        [format!(
            r#"spec: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"#
        )]
    );
}

#[test]
fn the_cost_of_all_rules_together_is_limited() {
    let rule = format!("!self.contains('{}')", "b".repeat(100));
    let schema = json!({"type": "array", "items": {"type": "string",
        "x-kubernetes-validations": [{"rule": rule}]}});
    let messages = check(&schema, None, &json!(vec!["a".repeat(400_000); 30]));
    // Each costs 400 003 of the 10 000 000.
    assert_eq!(
        messages,
        [
            r#"spec[24]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run"#
        ]
    );
}

#[test]
fn costly_regular_expressions_are_safe() {
    let schema = json!({"type": "string",
        "x-kubernetes-validations": [{"rule": "!self.matches('^(([a-z])+.)+[A-Z]([a-z])+$')"}]});
    assert_eq!(check(&schema, None, &json!("a".repeat(20_000))), NOTHING);
    let schema = json!({"type": "string",
        "x-kubernetes-validations": [{"rule": "!'a'.matches(self)", "message": "m"}]});
    let huge = "((a{1000}){1000}){1000}";
    let messages = check(&schema, None, &json!(huge));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].ends_with("evaluating rule: m"), "{messages:?}");
}
