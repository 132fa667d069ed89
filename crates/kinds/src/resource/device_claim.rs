//! The spec of a claim: requests for devices, constraints among them, and driver configuration.

use std::collections::HashSet;

use crate::storage::declared_driver_name;
use crate::validation::rules::{
    add_invalid, dns_label, one_of, positive, qualified_name, required, supported_only, unique,
};
use machinery::field_path::ErrorType;
use machinery::fields::{
    at, default_number, default_text, list, maps_mut, number, part, text, texts,
};
use machinery::{ErrorList, Map, Path, Value, names};

const MAX_REQUESTS: usize = 32;
const MAX_SUBREQUESTS: usize = 8;
const MAX_SELECTORS: usize = 32;
const MAX_PARAMETERS: usize = 10 << 10;
const MAX_IDENTIFIER: usize = 32;

/// Sets the defaults of requests. `spec` is that of a claim, or of the claims of a template.
pub(super) fn defaults(spec: &mut Map<String, Value>) {
    let Some(devices) = spec.get_mut("devices").and_then(Value::as_object_mut) else { return };
    for request in maps_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            request_defaults(exactly);
        }
        for subrequest in maps_mut(request, "firstAvailable") {
            request_defaults(subrequest);
        }
    }
}

fn request_defaults(request: &mut Map<String, Value>) {
    default_text(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").is_some_and(|mode| mode == "ExactCount") {
        default_number(request, "count", 1);
    }
    for toleration in maps_mut(request, "tolerations") {
        default_text(toleration, "operator", "Equal");
    }
}

/// Validates the spec of a claim, or of the claims of a template.
pub(super) fn validate(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (path, devices) = (path.child("devices"), at(spec, &["devices"]));
    let requests = list(devices, "requests");
    validate_requests(errors, &path.child("requests"), requests);
    let request_names = &names_of(requests);
    let constraints = path.child("constraints");
    for (index, constraint) in list(devices, "constraints").iter().enumerate() {
        validate_constraint(errors, &constraints.index(index), constraint, request_names);
    }
    let configurations = path.child("config");
    for (index, configuration) in list(devices, "config").iter().enumerate() {
        let path = configurations.index(index);
        validate_references(errors, &path.child("requests"), configuration, request_names);
        validate_configuration(errors, &path, configuration);
    }
}

fn validate_requests(errors: &mut ErrorList, path: &Path<'_>, requests: &[Value]) {
    if requests.len() > MAX_REQUESTS {
        return errors.too_many(path, requests.len(), MAX_REQUESTS);
    }
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        dns_label(errors, &path.child("name"), text(request, "name"));
        match (part(request, "exactly"), list(request, "firstAvailable")) {
            (None, []) => {
                let message = "exactly one of `exactly` or `firstAvailable` is required";
                errors.required(&path, message);
            }
            (Some(exactly), []) => {
                let path = path.child("exactly");
                let class = text(exactly, "deviceClassName");
                if class.is_empty() {
                    errors.required(&path.child("deviceClassName"), "");
                } else {
                    let found = names::dns1123_subdomain(class);
                    add_invalid(errors, &path.child("deviceClassName"), class, found);
                }
                validate_request(errors, &path, exactly);
            }
            (None, subrequests) => {
                validate_subrequests(errors, &path.child("firstAvailable"), subrequests);
            }
            (Some(_), _) => {
                let message = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.invalid(&path, Value::Null, message);
            }
        }
    }
    validate_unique_names(errors, path, requests);
}

/// Names must be unique.
fn validate_unique_names(errors: &mut ErrorList, path: &Path<'_>, requests: &[Value]) {
    let mut seen = HashSet::new();
    for (index, request) in requests.iter().enumerate() {
        if !seen.insert(text(request, "name")) {
            let shown = json_in_go_order(request);
            errors.declarative(|errors| {
                errors.add(ErrorType::Duplicate, &path.index(index), None, &shown);
            });
        }
    }
}

/// The JSON of a request with its fields in the order of upstream's structs.
fn json_in_go_order(value: &Value) -> String {
    const ORDER: &[&str] = &[
        "name",
        "exactly",
        "firstAvailable",
        "deviceClassName",
        "selectors",
        "allocationMode",
        "count",
        "adminAccess",
        "key",
        "operator",
        "value",
        "effect",
        "tolerations",
        "capacity",
    ];
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            fields.sort_by_key(|(key, _)| ORDER.iter().position(|it| it == key));
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("\"{key}\":{}", json_in_go_order(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(json_in_go_order).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn validate_subrequests(errors: &mut ErrorList, path: &Path<'_>, subrequests: &[Value]) {
    if subrequests.len() > MAX_SUBREQUESTS {
        return errors.too_many(path, subrequests.len(), MAX_SUBREQUESTS);
    }
    for (index, subrequest) in subrequests.iter().enumerate() {
        let path = path.index(index);
        dns_label(errors, &path.child("name"), text(subrequest, "name"));
        let class = text(subrequest, "deviceClassName");
        errors.declarative(|errors| {
            let path = path.child("deviceClassName");
            required(errors, &path, class);
            if !class.is_empty() {
                add_invalid(errors, &path, class, names::long_name(class));
            }
        });
        validate_request(errors, &path, subrequest);
    }
    validate_unique_names(errors, path, subrequests);
}

fn validate_request(errors: &mut ErrorList, path: &Path<'_>, request: &Value) {
    validate_selectors(errors, &path.child("selectors"), list(request, "selectors"));
    let (mode, count) = (text(request, "allocationMode"), number(request, "count"));
    match mode {
        "ExactCount" => positive(errors, &path.child("count"), count),
        "All" if count != 0 => {
            let message = "must not be specified when allocationMode is 'All'";
            errors.invalid(&path.child("count"), count, message);
        }
        mode => one_of(errors, &path.child("allocationMode"), mode, &["All", "ExactCount"]),
    }
    let path = path.child("tolerations");
    for (index, toleration) in list(request, "tolerations").iter().enumerate() {
        validate_toleration(errors, &path.index(index), toleration);
    }
}

fn validate_toleration(errors: &mut ErrorList, path: &Path<'_>, toleration: &Value) {
    let (key, value) = (text(toleration, "key"), text(toleration, "value"));
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Equal" => add_invalid(errors, &path.child("value"), value, names::label_value(value)),
        _ => {}
    }
    errors.declarative(|errors| {
        if !key.is_empty() {
            qualified_name(errors, &path.child("key"), key);
        }
        let operator = text(toleration, "operator");
        one_of(errors, &path.child("operator"), operator, &["Equal", "Exists"]);
        let effect = text(toleration, "effect");
        if !effect.is_empty() {
            let effects = &["NoExecute", "NoSchedule", "None"];
            supported_only(errors, &path.child("effect"), effect, effects);
        }
    });
}

/// Requires that each selector has an expression.
pub(super) fn validate_selectors(errors: &mut ErrorList, path: &Path<'_>, selectors: &[Value]) {
    if selectors.len() > MAX_SELECTORS {
        return errors.too_many(path, selectors.len(), MAX_SELECTORS);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("cel");
        match part(selector, "cel") {
            None => errors.required(&path, ""),
            Some(cel) => required(errors, &path.child("expression"), text(cel, "expression")),
        }
    }
}

fn validate_constraint(
    errors: &mut ErrorList,
    path: &Path<'_>,
    constraint: &Value,
    request_names: &RequestNames<'_>,
) {
    validate_references(errors, &path.child("requests"), constraint, request_names);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|key| Some((key, part(constraint, key)?.as_str()?)));
    match attribute {
        Some((key, name)) => {
            errors.declarative(|errors| validate_attribute(errors, &path.child(key), name));
        }
        None => errors.required(
            path,
            r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#,
        ),
    }
}

/// Validates a fully qualified attribute name: a domain, a slash and an identifier.
fn validate_attribute(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [identifier] => validate_identifier(errors, path, identifier),
        [domain, identifier] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                add_invalid(errors, path, domain, names::dns1123_subdomain(&domain.to_lowercase()));
            }
            if identifier.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                validate_identifier(errors, path, identifier);
            }
        }
        _ => {}
    }
    if !name.contains('/') {
        let message = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(path, name, message);
    }
}

/// Validates a C identifier.
pub(super) fn validate_identifier(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    const MESSAGE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if name.len() > MAX_IDENTIFIER {
        errors.too_long(path, MAX_IDENTIFIER);
    }
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        errors.invalid(path, name, MESSAGE);
    }
}

/// The names of requests, (request, None), and of their subrequests, (request, Some(subrequest)).
type RequestNames<'a> = HashSet<(&'a str, Option<&'a str>)>;

fn names_of(requests: &[Value]) -> RequestNames<'_> {
    let mut names = RequestNames::new();
    for request in requests {
        let name = text(request, "name");
        names.insert((name, None));
        let subrequests = list(request, "firstAvailable").iter();
        names.extend(subrequests.map(|it| (name, Some(text(it, "name")))));
    }
    names
}

/// Validates that `requests` in `owner` are names of requests, or of subrequests after a slash.
fn validate_references(
    errors: &mut ErrorList,
    path: &Path<'_>,
    owner: &Value,
    request_names: &RequestNames<'_>,
) {
    const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    for (index, name) in texts(owner, "requests").enumerate() {
        let path = path.index(index);
        let (request, subrequest) =
            name.split_once('/').map_or((name, None), |(name, rest)| (name, Some(rest)));
        if subrequest.is_some_and(|it| it.contains('/')) {
            errors.invalid(&path, name, UNKNOWN);
            continue;
        }
        for segment in name.split('/') {
            dns_label(errors, &path, segment);
        }
        if !request_names.contains(&(request, subrequest)) {
            errors.invalid(&path, name, UNKNOWN);
        }
    }
    errors.declarative(|errors| unique(errors, path, texts(owner, "requests")));
}

/// Validates a configuration for a driver.
pub(super) fn validate_configuration(
    errors: &mut ErrorList,
    path: &Path<'_>,
    configuration: &Value,
) {
    let path = path.child("opaque");
    let Some(opaque) = part(configuration, "opaque") else { return errors.required(&path, "") };
    declared_driver_name(errors, &path.child("driver"), text(opaque, "driver"));
    let path = path.child("parameters");
    match at(opaque, &["parameters"]) {
        Value::Null => errors.required(&path, ""),
        parameters if parameters.to_string().len() > MAX_PARAMETERS => {
            errors.too_long(&path, MAX_PARAMETERS);
        }
        Value::Object(_) => {}
        _ => errors.invalid(&path, "<value omitted>", "must be a valid JSON object"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(devices: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(&mut errors, &Path::root("spec"), &json!({"devices": devices}));
        assert_eq!(lines(&errors), expected);
    }

    fn request(name: &str) -> Value {
        json!({"name": name, "exactly":
            {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}})
    }

    #[test]
    fn a_constraint_needs_known_requests_and_a_qualified_attribute() {
        check(
            json!({"requests": [request("a")],
                "constraints": [{"requests": ["a", "b"], "matchAttribute": "x"}]}),
            &[
                r#"spec.devices.constraints[0].requests[1]: Invalid value: "b": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"#,
                r#"spec.devices.constraints[0].matchAttribute: Invalid value: "x": a fully qualified name must be a domain and a name separated by a slash"#,
            ],
        );
    }

    #[test]
    fn a_duplicate_request_is_reported_with_all_its_fields() {
        check(
            json!({"requests": [request("a"), request("a")]}),
            &[
                r#"spec.devices.requests[1]: Duplicate value: {"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}"#,
            ],
        );
    }

    #[test]
    fn a_configuration_needs_a_driver_and_parameters() {
        check(
            json!({"config": [{}, {"opaque": {"driver": "d", "parameters": 1}}, {"opaque": {"parameters": {}}}]}),
            &[
                "spec.devices.config[0].opaque: Required value",
                r#"spec.devices.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object"#,
                "spec.devices.config[2].opaque.driver: Required value",
            ],
        );
    }
}
