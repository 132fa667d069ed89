//! The field and label selectors in the `resourceAttributes` of an access review. A selector that
//! cannot be parsed is reported and does not restrict the review.
//!
//! Upstream: pkg/apis/authorization/validation, pkg/registry/authorization/util

use crate::request::Selectors;
use machinery::selector::Operator;
use machinery::selector::{FieldRequirement, FieldSelector, LabelRequirement, LabelSelector};
use machinery::{ErrorList, Path, Value, names};

/// The functions for one of the two selectors.
struct SelectorKind {
    /// The field of `resourceAttributes`.
    field: &'static str,
    validate: fn(&Value, &Path<'_>, &mut ErrorList),
    /// Whether the text of a `rawSelector` can be parsed.
    can_parse: fn(&str) -> bool,
    /// Whether a valid requirement is known to this server; newer clients may have other operators.
    is_known: fn(&Value) -> bool,
}

const SELECTORS: [SelectorKind; 2] = [
    SelectorKind {
        field: "fieldSelector",
        validate: validate_field_requirement,
        can_parse: |text| FieldSelector::parse(text).is_ok(),
        is_known: |it| matches!(operator(it), "In" | "NotIn") && list(it, "values").len() == 1,
    },
    SelectorKind {
        field: "labelSelector",
        validate: validate_label_requirement,
        can_parse: |text| LabelSelector::parse(text).is_ok(),
        is_known: |it| matches!(operator(it), "In" | "NotIn" | "Exists" | "DoesNotExist"),
    },
];

/// Validates both selectors.
pub(super) fn validate(attributes: &Value, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let path = spec.child("resourceAttributes");
    for SelectorKind { field, validate, .. } in &SELECTORS {
        let Some(selector) = attributes.get(field).filter(|it| it.is_object()) else { continue };
        let path = path.child(field);
        let (raw, requirements) = (text(selector, "rawSelector"), list(selector, "requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            errors.invalid(&path.child("rawSelector"), raw, detail);
        }
        let path = path.child("requirements");
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!(
                "when spec.resourceAttributes.{field} is specified, requirements or rawSelector is required"
            );
            errors.required(&path, &detail);
        }
        for (index, requirement) in requirements.iter().enumerate() {
            validate(requirement, &path.index(index), errors);
        }
    }
}

/// An error for each selector that cannot be parsed.
pub(super) fn parse_errors(attributes: &Value) -> Vec<String> {
    let ignored = SELECTORS.iter().filter_map(|kind| {
        let selector = attributes.get(kind.field)?;
        let (raw, requirements) = (text(selector, "rawSelector"), list(selector, "requirements"));
        let known = requirements.iter().filter(|it| (kind.is_known)(it)).count();
        if known == requirements.len() && (raw.is_empty() || (kind.can_parse)(raw)) {
            return None;
        }
        let partially = if known > 0 { "partially " } else { "" };
        let field = kind.field;
        Some(format!("spec.resourceAttributes.{field} {partially}ignored due to parse error"))
    });
    ignored.collect()
}

/// The requirements that can be parsed, for authorizers.
pub(super) fn requirements(attributes: &Value) -> Option<Selectors> {
    let [fields, labels] = SELECTORS.map(|it| attributes.get(it.field));
    let raw = |selector: Option<&Value>| {
        selector.map(|it| text(it, "rawSelector")).unwrap_or_default().to_owned()
    };
    let mut found = Selectors::parse(&raw(fields), &raw(labels)).unwrap_or_default();
    let fields = fields.map(|it| list(it, "requirements")).unwrap_or_default();
    found.fields.extend(fields.iter().filter_map(field_requirement));
    let labels = labels.map(|it| list(it, "requirements")).unwrap_or_default();
    found.labels.extend(labels.iter().filter_map(label_requirement));
    found.non_empty()
}

fn field_requirement(requirement: &Value) -> Option<FieldRequirement> {
    let equal = match operator(requirement) {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let [value] = list(requirement, "values") else { return None };
    let value = value.as_str().unwrap_or_default().to_owned();
    Some(FieldRequirement { field: text(requirement, "key").to_owned(), value, equal })
}

fn label_requirement(requirement: &Value) -> Option<LabelRequirement> {
    let operator = match operator(requirement) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let values = list(requirement, "values").iter().filter_map(Value::as_str);
    let values = values.map(ToOwned::to_owned).collect();
    LabelRequirement::new(text(requirement, "key"), operator, values).ok()
}

fn validate_field_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if text(requirement, "key").is_empty() {
        errors.required(&path.child("key"), "must be specified");
    }
    validate_number_of_values(requirement, path, errors);
}

fn validate_label_requirement(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_number_of_values(requirement, path, errors);
    let key = text(requirement, "key");
    for message in names::qualified_name(key) {
        errors.invalid(&path.child("key"), key, &message);
    }
    let path = path.child("values");
    let values = list(requirement, "values").iter().filter_map(Value::as_str);
    for (index, value) in values.enumerate() {
        for message in names::label_value(value) {
            errors.invalid(&path.index(index), value, &message);
        }
    }
}

fn validate_number_of_values(requirement: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_values = !list(requirement, "values").is_empty();
    let path = path.child("values");
    match operator(requirement) {
        "In" | "NotIn" if !has_values => {
            errors.required(&path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if has_values => errors
            .forbidden(&path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        _ => {}
    }
}

fn operator(requirement: &Value) -> &str {
    text(requirement, "operator")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
