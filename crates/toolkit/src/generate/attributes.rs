//! [`field_attributes`] and [`schema_arguments`]: the keywords of a schema as the attributes that say them.
//!
//! What has no attribute of its own stays in `patch(…)`, so that no keyword is lost.

use super::attribute_layout::Argument;
use super::literal::{json_tokens, text_literal};
use super::rust_type::RustType;
use machinery::{Map, Value};

/// The largest number of rules in attributes: the macros write a list as deeply nested as it is long.
const MAX_RULES: usize = 20;

const REASONS: [&str; 4] =
    ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];

/// The names of arguments: those about a field or a type differ from those about the whole object.
#[derive(Clone, Copy)]
pub(crate) struct ArgumentNames {
    pub(crate) rule: &'static str,
    pub(crate) patch: &'static str,
}

pub(crate) const OF_SCHEMA: ArgumentNames = ArgumentNames { rule: "rule", patch: "patch" };
pub(crate) const OF_OBJECT: ArgumentNames =
    ArgumentNames { rule: "object_rule", patch: "object_patch" };

/// The arguments of `#[schemars(…)]` and `#[schema(…)]` for a field.
pub(crate) fn field_attributes(
    patch: &Map<String, Value>,
    rust_type: &RustType,
) -> (Vec<Argument>, Vec<Argument>) {
    let mut patch = patch.clone();
    let schemars = match rust_type {
        RustType::Text => {
            let mut arguments = limits(&mut patch, "length", ["minLength", "maxLength"]);
            if let Some(Value::String(pattern)) = patch.get("pattern") {
                let pattern = Argument::value("pattern", &text_literal(pattern));
                arguments.push(Argument::List("regex", vec![pattern]));
                patch.remove("pattern");
            }
            arguments
        }
        RustType::List(_) => limits(&mut patch, "length", ["minItems", "maxItems"]),
        RustType::Int32 | RustType::Int64 | RustType::Double => {
            limits(&mut patch, "range", ["minimum", "maximum"])
        }
        _ => Vec::new(),
    };
    (schemars, schema_arguments(&patch, OF_SCHEMA))
}

/// `length(min = 1, max = 2)`, if there is a limit.
fn limits(
    patch: &mut Map<String, Value>,
    name: &'static str,
    keywords: [&str; 2],
) -> Vec<Argument> {
    let mut arguments = Vec::new();
    for (argument, keyword) in ["min", "max"].into_iter().zip(keywords) {
        if let Some(number) = patch.get(keyword).and_then(number_literal) {
            arguments.push(Argument::value(argument, &number));
            patch.remove(keyword);
        }
    }
    if arguments.is_empty() { arguments } else { vec![Argument::List(name, arguments)] }
}

/// A number as the macros of schemars take it.
fn number_literal(number: &Value) -> Option<String> {
    match number.as_i64() {
        Some(integer) if i32::try_from(integer).is_ok() => Some(integer.to_string()),
        Some(integer) => Some(format!("{integer}_i64")),
        None => number.as_f64().map(|float| format!("{float:?}")),
    }
}

/// The arguments of `#[schema(…)]`, or those of `#[resource(…)]` about the object.
pub(crate) fn schema_arguments(patch: &Map<String, Value>, names: ArgumentNames) -> Vec<Argument> {
    let mut patch = patch.clone();
    let mut arguments = Vec::new();
    if names.patch == OF_SCHEMA.patch {
        arguments.extend(list_type(&mut patch));
        if let Some(Value::String(value)) = patch.get("x-kubernetes-map-type") {
            arguments.push(Argument::value("map_type", &text_literal(value)));
            patch.remove("x-kubernetes-map-type");
        }
        for name in ["preserve_unknown_fields", "embedded_resource"] {
            let keyword = format!("x-kubernetes-{}", name.replace('_', "-"));
            if patch.get(&keyword) == Some(&Value::Bool(true)) {
                arguments.push(Argument::word(name));
                patch.remove(&keyword);
            }
        }
    }
    if let Some(Value::Array(list)) = patch.get("x-kubernetes-validations") {
        let rules: Option<Vec<Argument>> = list.iter().map(|it| rule(it, names.rule)).collect();
        if let Some(rules) = rules.filter(|rules| rules.len() <= MAX_RULES) {
            arguments.extend(rules);
            patch.remove("x-kubernetes-validations");
        }
    }
    if !patch.is_empty() {
        let keyword = |(keyword, value): (&String, &Value)| {
            Argument::value(&text_literal(keyword), &json_tokens(value))
        };
        arguments.push(Argument::List(names.patch, patch.iter().map(keyword).collect()));
    }
    arguments
}

fn list_type(patch: &mut Map<String, Value>) -> Option<Argument> {
    let kind = patch.get("x-kubernetes-list-type")?.as_str()?.to_owned();
    let keys = patch.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let keys: Option<Vec<&str>> = keys.map(|keys| keys.iter().filter_map(Value::as_str).collect());
    let argument = match (kind.as_str(), keys) {
        ("map", Some(keys)) => {
            let keys = keys.into_iter().map(|key| Argument::Plain(text_literal(key))).collect();
            patch.remove("x-kubernetes-list-map-keys");
            Argument::List("list_map_keys", keys)
        }
        ("atomic" | "set" | "map", _) => Argument::value("list_type", &text_literal(&kind)),
        _ => return None,
    };
    patch.remove("x-kubernetes-list-type");
    Some(argument)
}

/// A rule, unless it has fields without an argument.
fn rule(rule: &Value, name: &'static str) -> Option<Argument> {
    let expression = rule["rule"].as_str().filter(|it| !it.trim().is_empty())?;
    let mut arguments = vec![Argument::Plain(text_literal(expression))];
    for (field, value) in rule.as_object()? {
        let name = match (field.as_str(), value) {
            ("rule", _) => continue,
            ("optionalOldSelf", Value::Bool(true)) => {
                arguments.push(Argument::word("optional_old_self"));
                continue;
            }
            ("message", _) => "message",
            ("messageExpression", _) => "message_expression",
            ("fieldPath", _) => "field_path",
            ("reason", reason) if REASONS.iter().any(|it| reason == it) => "reason",
            _ => return None,
        };
        arguments.push(Argument::value(name, &text_literal(value.as_str()?)));
    }
    Some(Argument::List(name, arguments))
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::super::attribute_layout::attribute;
    use super::*;

    fn check(patch: &Value, rust_type: &RustType, expected: &str) {
        let (schemars, schema) = field_attributes(patch.as_object().unwrap(), rust_type);
        let text = attribute("schemars", &schemars, 0) + &attribute("schema", &schema, 0);
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn limits_are_those_of_schemars() {
        let patch = json!({"minLength": 1, "maxLength": 3_000_000_000_u32, "pattern": "^\\d"});
        let expected =
            "#[schemars(length(min = 1, max = 3000000000_i64), regex(pattern = r\"^\\d\"))]";
        check(&patch, &RustType::Text, expected);
        check(&json!({"minimum": 0.5}), &RustType::Double, "#[schemars(range(min = 0.5))]");
        let list = RustType::List(Box::new(RustType::Text));
        let expected =
            "#[schemars(length(max = 2))]\n#[schema(patch(\"items\" = {\"maxLength\": 1}))]";
        check(&json!({"maxItems": 2, "items": {"maxLength": 1}}), &list, expected);
    }

    #[test]
    fn extensions_are_arguments_and_the_rest_is_a_patch() {
        let patch = json!({
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "format": null,
        });
        let expected = "#[schema(list_map_keys(\"a\"), patch(\"format\" = null))]";
        check(&patch, &RustType::Json, expected);
        let rule =
            json!({"rule": "self > 0", "reason": "FieldValueInvalid", "optionalOldSelf": true});
        let expected =
            "#[schema(rule(\"self > 0\", optional_old_self, reason = \"FieldValueInvalid\"))]";
        check(&json!({"x-kubernetes-validations": [rule]}), &RustType::Json, expected);
        let odd = json!({"x-kubernetes-validations": [{"rule": "true", "reason": "Odd"}]});
        let expected = "#[schema(patch(\"x-kubernetes-validations\" = [{\"reason\": \"Odd\", \"rule\": \"true\"}]))]";
        check(&odd, &RustType::Json, expected);
    }
}
