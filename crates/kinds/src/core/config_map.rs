//! `ConfigMap`: keys and values for pods to read.

use super::secret::decoded_length;
use crate::table;
use crate::validation::rules::add_invalid;
use machinery::fields::{entries, same, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The maximum total size of the values of a config map or a secret, in bytes.
pub(crate) const MAX_SIZE: usize = 1024 * 1024;

/// The error about a change of an immutable config map or secret.
const FIELD_IMMUTABLE: &str = "field is immutable when `immutable` is set";

/// The resource of the kind `ConfigMap`.
pub fn resource() -> Resource {
    Resource {
        short_names: vec!["cm".to_owned()],
        ..table::resource(
            "",
            "ConfigMap",
            "configmaps",
            &STRATEGY,
            table::v1("core/v1.ConfigMap", Columns::Fixed(COLUMNS, cells)),
        )
    }
}

static STRATEGY: Strategy = Strategy { validate, validate_update, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[
    NAME,
    column("Data", "The number of keys of the config map, including those with binary values."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let count = |key| top(object, key).as_object().map_or(0, machinery::Map::len);
    vec![object.name().into(), (count("data") + count("binaryData")).into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let whole = Value::Object(object.map().clone());
    let mut size = 0;
    let data = Path::root("data");
    for (key, value) in entries(&whole, "data") {
        add_invalid(errors, &data.key(key), key, names::config_map_key(key));
        if whole["binaryData"].get(key).is_some() {
            errors.invalid(&data.key(key), key, "duplicate of key present in binaryData");
        }
        size += value.as_str().map_or(0, str::len);
    }
    let binary_data = Path::root("binaryData");
    for (key, value) in entries(&whole, "binaryData") {
        add_invalid(errors, &binary_data.key(key), key, names::config_map_key(key));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        errors.too_long(&Path::UNNAMED, MAX_SIZE);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate_immutable(new, old, &["data", "binaryData"], errors);
    validate(new, errors);
}

/// Validates that an immutable object stays immutable and that `fields` do not change.
pub(crate) fn validate_immutable(
    new: &Object,
    old: &Object,
    fields: &[&str],
    errors: &mut ErrorList,
) {
    let is_immutable = |object: &Object| top(object, "immutable").as_bool().unwrap_or(false);
    if !is_immutable(old) {
        return;
    }
    if !is_immutable(new) {
        errors.forbidden(&Path::root("immutable"), FIELD_IMMUTABLE);
    }
    for field in fields {
        if !same(top(new, field), top(old, field)) {
            errors.forbidden(&Path::root(field), FIELD_IMMUTABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals, refusals_of_update};
    use machinery::json;

    fn check(config_map: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, config_map), expected);
    }

    #[test]
    fn a_key_in_data_and_binary_data_is_a_duplicate() {
        check(
            json!({"data": {"k": "v"}, "binaryData": {"k": "eA=="}}),
            &[r#"data[k]: Invalid value: "k": duplicate of key present in binaryData"#],
        );
    }

    #[test]
    fn the_total_size_of_all_values_is_limited() {
        check(json!({"data": {"k": "x".repeat(MAX_SIZE)}}), &[]);
        check(
            json!({"data": {"k": "x".repeat(MAX_SIZE)}, "binaryData": {"b": "eA=="}}),
            &["[]: Too long: may not be more than 1048576 bytes"],
        );
    }

    #[test]
    fn immutable_data_cannot_change() {
        let old = json!({"immutable": true, "data": {"k": "v"}});
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"data": {"k": "w"}}), old.clone()),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set"
            ]
        );
        assert_eq!(refusals_of_update(&STRATEGY, old.clone(), old), Vec::<String>::new());
    }

    #[test]
    fn the_table_counts_the_keys_of_data_and_binary_data() {
        let config_map = object(json!({"metadata": {"name": "a"}, "data": {"k": "v"},
            "binaryData": {"b": "eA=="}}));
        assert_eq!(cells(&config_map, &Now { unix_seconds: 0 })[..2], [json!("a"), json!(2)]);
    }
}
