//! [`overlay`]: merges a configuration into an object without tracking ownership, for mutating
//! admission policies.

use super::item::KeyError;
use super::merge::merge;
use super::schema::{ListRule, MapRule, Schema};
use super::validate::{ValidationErrors, validate};
use crate::{Map, Value};

/// Why a configuration was not merged into an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// The configuration does not match the schema.
    #[error("failed to convert patch object to typed object: {0}")]
    NotTyped(#[from] ValidationErrors),
    /// It sets a part of a value that can only be replaced as a whole.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
    /// An element of a list cannot be identified.
    #[error("failed to merge patch: {0}")]
    Merge(#[from] KeyError),
}

/// Merges `config` into `object`. Removes nothing; refuses to change atomic values.
pub fn overlay<S: Schema>(
    schema: S,
    object: &mut Map<String, Value>,
    config: &Map<String, Value>,
) -> Result<(), OverlayError> {
    validate(schema, config)?;
    let mut atomics = Vec::new();
    find_atomics_in_fields(schema, config, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(OverlayError::Atomic(atomics));
    }
    Ok(merge(schema, object, config)?)
}

/// Adds the paths of the atomic values in `config`. Undeclared fields are not searched.
fn find_atomics_in_fields<S: Schema>(
    schema: S,
    config: &Map<String, Value>,
    path: &str,
    atomics: &mut Vec<String>,
) {
    for (name, value) in config {
        if let Some(node) = schema.field(name) {
            find_atomics(node, value, &format!("{path}.{name}"), atomics);
        }
    }
}

fn find_atomics<S: Schema>(schema: S, value: &Value, path: &str, atomics: &mut Vec<String>) {
    let forms = schema.forms();
    match value {
        Value::Object(config) => {
            let Some(rule) = forms.map else { return };
            if rule == MapRule::Atomic {
                atomics.push(path.to_owned());
            }
            find_atomics_in_fields(schema, config, path, atomics);
        }
        Value::Array(items) => {
            let Some(rule) = forms.list else { return };
            if rule == ListRule::Atomic {
                atomics.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(schema.items(), item, &format!("{path}[{index}]"), atomics);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::Deduced;
    use super::*;
    use crate::json;

    fn overlaid(schema: Deduced, object: Value, config: &Value) -> Result<Value, String> {
        let Value::Object(mut object) = object else { panic!("an object") };
        let config = config.as_object().expect("an object");
        overlay(schema, &mut object, config).map_err(|error| error.to_string())?;
        Ok(Value::Object(object))
    }

    #[test]
    fn fields_outside_of_the_configuration_are_kept() {
        let object = json!({"spec": {"a": 1, "b": 2}});
        let found = overlaid(Deduced::Granular, object, &json!({"spec": {"b": 3, "c": 4}}));
        assert_eq!(found, Ok(json!({"spec": {"a": 1, "b": 3, "c": 4}})));
    }
}
