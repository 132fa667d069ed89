//! [`decode`]: reads a configuration file of the group `apiserver.config.k8s.io`, whose versions have
//! the same fields. [`decode_secret`]: reads any file with secrets.

use serde::Serialize;
use serde::de::DeserializeOwned;

use machinery::codec::{Decoded, yaml};
use machinery::field_path::quote;
use machinery::{Path, Value};

/// The group of the configurations.
const GROUP: &str = "apiserver.config.k8s.io";

/// The versions of the configurations.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Reads YAML or JSON of this kind. Fields that do not exist and repeated ones are errors, and so is
/// what `check` adds. The error is a message for users. `T` serializes all of its fields.
pub(crate) fn decode<T: Serialize + DeserializeOwned>(
    text: &[u8],
    expected_kind: &str,
    check: impl FnOnce(&T, &mut Vec<String>),
) -> Result<T, String> {
    let decoded = yaml::decode(text).map_err(|error| error.to_string())?;
    let field = |name: &str| decoded.value[name].as_str().unwrap_or_default();
    let (api_version, kind) = (field("apiVersion"), field("kind"));
    if kind.is_empty() || api_version.is_empty() {
        let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
        return Err(format!("Object '{missing}' is missing in the configuration"));
    }
    let is_known = api_version.split_once('/').is_some_and(|(group, version)| {
        group == GROUP && VERSIONS.contains(&version) && kind == expected_kind
    });
    if !is_known {
        return Err(format!(
            "no kind {} is registered for version {}: use {expected_kind} in {GROUP}/{}",
            quote(kind),
            quote(api_version),
            VERSIONS[0]
        ));
    }
    let configuration: T = serde_json::from_value(without_nulls(decoded.value.clone()))
        .map_err(|error| error.to_string())?;
    let known = serde_json::to_value(&configuration).map_err(|error| error.to_string())?;
    let mut errors = decoded.strict_errors();
    find_unknown(&decoded.value, &known, &Path::EMPTY, &mut errors);
    check(&configuration, &mut errors);
    refuse(&errors)?;
    Ok(configuration)
}

/// Reads YAML or JSON whose values are secret: the decoder's message, which may show a part of the
/// text, is replaced. Repeated fields are errors: [`Decoded::strict_errors`] has them.
pub(crate) fn decode_secret(text: &[u8]) -> Result<Decoded, String> {
    yaml::decode(text).map_err(|error| {
        let rest = error.message.strip_prefix("yaml: line ");
        let line = rest.and_then(|it| it.split(':').next()?.parse::<usize>().ok());
        match line {
            Some(line) => format!("line {line} is not valid YAML"),
            None => "it is not valid YAML".to_owned(),
        }
    })
}

/// Refuses a file with errors of strict decoding.
pub(crate) fn refuse(errors: &[String]) -> Result<(), String> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("strict decoding error: {}", errors.join(", ")))
}

/// Upstream: a field that is null has its default.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Adds an error for every field of `found` that `known` does not have: `known` is what was read, written
/// again.
fn find_unknown(found: &Value, known: &Value, path: &Path<'_>, errors: &mut Vec<String>) {
    match (found, known) {
        (Value::Object(fields), Value::Object(known)) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let path = path.child(name);
                if let Some(known) = known.get(name) {
                    find_unknown(value, known, &path, errors);
                    continue;
                }
                let path = path.to_string();
                errors.push(format!("unknown field {}", quote(path.trim_start_matches('.'))));
            }
        }
        (Value::Array(items), Value::Array(known)) => {
            for (index, (item, known)) in items.iter().zip(known).enumerate() {
                find_unknown(item, known, &path.index(index), errors);
            }
        }
        _ => {}
    }
}
