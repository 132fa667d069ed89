//! `Secret`: keys and confidential values for pods to read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::config_map::{MAX_SIZE, validate_immutable};
use crate::table;
use crate::validation::rules::{add_invalid, immutable};
use machinery::fields::{default_text, top};
use machinery::{ErrorList, Map, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version};

/// The resource of the kind `Secret`.
pub fn resource() -> Resource {
    let version = Version {
        selectable: [table::selectable("type", "")].into(),
        ..table::v1("core/v1.Secret", Columns::Fixed(COLUMNS, cells))
    };
    table::resource("", "Secret", "secrets", &STRATEGY, version)
}

static STRATEGY: Strategy =
    Strategy { defaults, validate, validate_update, warnings, ..Strategy::DEFAULT };

const COLUMNS: &[Column] = &[
    NAME,
    column("Type", "The type of the secret, which requires some keys: kubernetes.io/tls, …"),
    column("Data", "The number of keys of the secret; the values are not shown in tables."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let count = top(object, "data").as_object().map_or(0, Map::len);
    vec![object.name().into(), object.str_at(&["type"]).into(), count.into(), age(object, now)]
}

/// The number of bytes that a base64 value has after decoding.
pub(crate) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len() * 3 / 4
}

fn defaults(object: &mut Object) {
    if let Some(Value::Object(string_data)) = object.map_mut().remove("stringData") {
        let data = object.map_at(&["data"]);
        for (key, value) in string_data {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }
    default_text(object.map_mut(), "type", "Opaque");
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = Path::root("data");
    let empty = Map::new();
    let data = top(object, "data").as_object().unwrap_or(&empty);
    for key in data.keys() {
        add_invalid(errors, &path.key(key), key, names::config_map_key(key));
    }
    if data.values().map(decoded_length).sum::<usize>() > MAX_SIZE {
        errors.too_long(&path, MAX_SIZE);
    }
    let mut require = |key: &str| {
        if !data.contains_key(key) {
            errors.required(&path.key(key), "");
        }
    };
    match object.str_at(&["type"]) {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if object.annotation(ACCOUNT).unwrap_or_default().is_empty() {
                let annotations = Path::root("metadata");
                errors.required(&annotations.child("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_registry_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_registry_config(data, ".dockerconfigjson", errors);
        }
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth"
            if data.get("ssh-privatekey").is_none_or(|key| decoded_length(key) == 0) =>
        {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            require("tls.crt");
            require("tls.key");
        }
        _ => {}
    }
}

/// Validates the credentials for image registries: `key` is required and must be a JSON object.
fn validate_registry_config(data: &Map<String, Value>, key: &str, errors: &mut ErrorList) {
    let path = Path::root("data");
    let Some(value) = data.get(key) else {
        return errors.required(&path.key(key), "");
    };
    if let Err(message) = check_json_object(&decode(value)) {
        errors.invalid(&path.key(key), "<secret contents redacted>", &message);
    }
}

fn decode(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default()
}

/// Fails with the message of Go's decoder if `bytes` are not a JSON object.
fn check_json_object(bytes: &[u8]) -> Result<(), String> {
    let kind = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return Ok(()),
        Ok(Value::Array(_)) => "array",
        Ok(Value::String(_)) => "string",
        Ok(Value::Number(_)) => "number",
        Ok(Value::Bool(_)) => "bool",
        Err(error) if error.is_eof() => return Err("unexpected end of JSON input".to_owned()),
        Err(error) => {
            let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
            let byte = line.and_then(|line| line.get(error.column().saturating_sub(1)));
            let character = char::from(byte.copied().unwrap_or(b' '));
            return Err(format!("invalid character '{character}' looking for beginning of value"));
        }
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    immutable(errors, &Path::root("type"), top(new, "type"), top(old, "type"));
    validate_immutable(new, old, &["data"], errors);
    validate(new, errors);
}

fn warnings(object: &Object) -> Vec<String> {
    if object.str_at(&["type"]) != "kubernetes.io/tls" {
        return Vec::new();
    }
    let has_pem = |key| {
        let bytes = decode(object.get(&["data", key]).unwrap_or(&Value::Null));
        String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    let missing = |what| vec![format!("tls: failed to find any PEM data in {what} input")];
    match (has_pem("tls.crt"), has_pem("tls.key")) {
        (false, _) => missing("certificate"),
        (true, false) => missing("key"),
        (true, true) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{defaulted, object, refusals, refusals_of_update};
    use machinery::json;

    fn check(secret: Value, expected: &[&str]) {
        assert_eq!(refusals(&STRATEGY, secret), expected);
    }

    #[test]
    fn string_data_is_encoded_and_overwrites_data() {
        assert_eq!(
            defaulted(
                &STRATEGY,
                json!({"stringData": {"user": "root"}, "data": {"user": "eA==", "pass": "eQ=="}})
            ),
            json!({"data": {"pass": "eQ==", "user": "cm9vdA=="}, "type": "Opaque"})
        );
    }

    #[test]
    fn some_types_require_keys_or_an_annotation() {
        check(
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            &["data[tls.key]: Required value"],
        );
        check(
            json!({"type": "kubernetes.io/basic-auth"}),
            &["data[username]: Required value", "data[password]: Required value"],
        );
        check(json!({"type": "kubernetes.io/basic-auth", "data": {"username": ""}}), &[]);
        check(
            json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}),
            &["data[ssh-privatekey]: Required value"],
        );
        check(
            json!({"type": "kubernetes.io/service-account-token"}),
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        );
    }

    #[test]
    fn registry_credentials_must_be_a_json_object() {
        check(json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "e30="}}), &[]);
        check(
            json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "eA=="}}),
            &[
                r#"data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character 'x' looking for beginning of value"#,
            ],
        );
    }

    #[test]
    fn the_type_cannot_change() {
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"type": "b"}), json!({"type": "a"})),
            [r#"type: Invalid value: "b": field is immutable"#]
        );
    }

    #[test]
    fn a_tls_secret_without_a_pem_certificate_causes_a_warning() {
        let secret = object(json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}}));
        assert_eq!(warnings(&secret), ["tls: failed to find any PEM data in certificate input"]);
    }
}
