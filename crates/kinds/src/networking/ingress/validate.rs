//! Validation of ingresses.

use super::CLASS_ANNOTATION;
use crate::validation::address::{self, Stored};
use crate::validation::rules::{
    add_invalid, dns_subdomain, port, required_segment, supported_only,
};
use machinery::fields::{at, list, number, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};

static SPEC: Path<'static> = Path::root("spec");

/// Validates a new ingress.
pub(super) fn validate_create(object: &Object, errors: &mut ErrorList) {
    validate(object, errors);
    let class = part(top(object, "spec"), "ingressClassName").and_then(Value::as_str);
    if let (Some(annotated), Some(class)) = (object.annotation(CLASS_ANNOTATION), class)
        && annotated != class
    {
        let path = Path::root("annotations");
        let message = "must match `ingressClassName` when both are specified";
        errors.invalid(&path.child(CLASS_ANNOTATION), annotated, message);
    }
}

/// Validates a change. Invalid names of secrets are allowed if the stored ingress has one.
pub(super) fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    validate(new, &mut found);
    let was_invalid = list(top(old, "spec"), "tls").iter().any(|tls| {
        let name = text(tls, "secretName");
        !name.is_empty() && !names::dns1123_subdomain(name).is_empty()
    });
    for error in found.into_inner() {
        if !(was_invalid && error.field.ends_with(".secretName")) {
            errors.push(error);
        }
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let rules = list(spec, "rules");
    let backend = part(spec, "defaultBackend");
    if rules.is_empty() && backend.is_none() {
        let message = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&SPEC, at(spec, &["rules"]).clone(), message);
    }
    if let Some(backend) = backend {
        validate_backend(errors, &SPEC.child("defaultBackend"), backend);
    }
    let path = SPEC.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        validate_rule(errors, &path.index(index), rule);
    }
    let path = SPEC.child("tls");
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = path.index(index);
        let hosts = path.child("hosts");
        for (index, host) in texts(tls, "hosts").enumerate() {
            validate_host(errors, &hosts.index(index), host);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            dns_subdomain(errors, &path.child("secretName"), secret);
        }
    }
    if let Some(class) = part(spec, "ingressClassName").and_then(Value::as_str) {
        dns_subdomain(errors, &SPEC.child("ingressClassName"), class);
    }
}

fn validate_host(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    let found =
        if host.contains('*') { wildcard_errors(host) } else { names::dns1123_subdomain(host) };
    add_invalid(errors, path, host, found);
}

/// The errors of a host that must be `*.` and a DNS subdomain.
fn wildcard_errors(host: &str) -> Vec<String> {
    let mut found = Vec::new();
    if host.len() > names::SUBDOMAIN_MAX {
        found.push(format!("must be no more than {} characters", names::SUBDOMAIN_MAX));
    }
    // The length is that of the whole host, so the message about the rest is ignored.
    let rest = host.strip_prefix("*.").unwrap_or_default();
    if !names::dns1123_subdomain(rest).iter().all(|it| it.starts_with("must be no more")) {
        found.push(r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    found
}

fn validate_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let path = path.child("host");
        if address::parse(host).is_some() {
            errors.invalid(&path, host, "must be a DNS name, not an IP address");
        }
        validate_host(errors, &path, host);
    }
    let Some(http) = part(rule, "http") else { return };
    let path = path.child("http");
    let path = path.child("paths");
    if list(http, "paths").is_empty() {
        errors.required(&path, "");
    }
    for (index, http_path) in list(http, "paths").iter().enumerate() {
        validate_path(errors, &path.index(index), http_path);
    }
}

fn validate_path(errors: &mut ErrorList, path: &Path<'_>, http_path: &Value) {
    let Some(kind) = part(http_path, "pathType").and_then(Value::as_str) else {
        return errors.required(&path.child("pathType"), "pathType must be specified");
    };
    let (field, value) = (path.child("path"), text(http_path, "path"));
    let is_relative = !value.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if is_relative {
                errors.invalid(&field, value, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if value.contains(part) {
                    errors.invalid(&field, value, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if value.ends_with(end) {
                    errors.invalid(&field, value, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !value.is_empty() && is_relative => {
            errors.invalid(&field, value, "must be an absolute path");
        }
        _ => {
            let kinds = &["Exact", "ImplementationSpecific", "Prefix"];
            supported_only(errors, &path.child("pathType"), kind, kinds);
        }
    }
    validate_backend(errors, &path.child("backend"), at(http_path, &["backend"]));
}

fn validate_backend(errors: &mut ErrorList, path: &Path<'_>, backend: &Value) {
    match (part(backend, "resource"), part(backend, "service")) {
        (Some(_), Some(_)) => {
            errors.invalid(path, "", "cannot set both resource and service backends");
        }
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => validate_resource(errors, &path.child("resource"), resource),
        (None, Some(service)) => validate_service(errors, path, service),
    }
}

fn validate_resource(errors: &mut ErrorList, path: &Path<'_>, resource: &Value) {
    if let Some(group) = part(resource, "apiGroup").and_then(Value::as_str) {
        dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    required_segment(errors, &path.child("kind"), text(resource, "kind"));
    required_segment(errors, &path.child("name"), text(resource, "name"));
}

fn validate_service(errors: &mut ErrorList, backend: &Path<'_>, service: &Value) {
    let path = backend.child("service");
    match text(service, "name") {
        "" => errors.required(&path.child("name"), ""),
        name => add_invalid(errors, &path.child("name"), name, names::dns1123_label(name)),
    }
    let path = path.child("port");
    let service_port = at(service, &["port"]);
    match (text(service_port, "name"), number(service_port, "number")) {
        ("", 0) => errors.required(backend, "port name or number is required"),
        ("", number) => port(errors, &path.child("number"), number),
        (name, 0) => add_invalid(errors, &path.child("name"), name, names::port_name(name)),
        _ => errors.invalid(backend, "", "cannot set both port name & port number"),
    }
}

/// Validates a change of `/status`.
pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    let points = |object| list(at(top(object, "status"), &["loadBalancer"]), "ingress");
    let stored: Stored<'_> = points(old).iter().map(|point| text(point, "ip")).collect();
    let path = Path::root("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    for (index, point) in points(new).iter().enumerate() {
        let path = path.index(index);
        let (ip, host) = (text(point, "ip"), text(point, "hostname"));
        if !ip.is_empty() {
            address::ip(errors, &path.child("ip"), ip, &stored);
        }
        if !host.is_empty() {
            let path = path.child("hostname");
            dns_subdomain(errors, &path, host);
            if address::parse(host).is_some() {
                errors.invalid(&path, host, "must be a DNS name, not an IP address");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use crate::validation::testing::refusals;
    use machinery::{Value, json};

    fn check(path: Value, expected: &[&str]) {
        let spec = json!({"rules": [{"http": {"paths": [path]}}]});
        assert_eq!(refusals(&STRATEGY, json!({"spec": spec})), expected);
    }

    fn backend() -> Value {
        json!({"service": {"name": "s", "port": {"number": 80}}})
    }

    #[test]
    fn a_default_backend_or_rules_are_required() {
        assert_eq!(
            refusals(&STRATEGY, json!({})),
            ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
        );
    }

    #[test]
    fn a_path_needs_a_type_and_a_backend() {
        check(
            json!({"path": "x"}),
            &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        );
        check(
            json!({"path": "x//", "pathType": "Prefix", "backend": {}}),
            &[
                r#"spec.rules[0].http.paths[0].path: Invalid value: "x//": must be an absolute path"#,
                r#"spec.rules[0].http.paths[0].path: Invalid value: "x//": must not contain '//'"#,
                r#"spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required"#,
            ],
        );
        check(json!({"path": "/x", "pathType": "Exact", "backend": backend()}), &[]);
    }

    #[test]
    fn a_service_backend_needs_a_port() {
        let backend = json!({"service": {"name": "s", "port": {}}});
        check(
            json!({"path": "/", "pathType": "Exact", "backend": backend}),
            &[
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ],
        );
    }

    #[test]
    fn a_host_is_a_dns_name_or_a_wildcard() {
        let rule = |host: &str| json!({"spec": {"rules": [{"host": host}]}});
        assert_eq!(refusals(&STRATEGY, rule("*.example.com")), Vec::<String>::new());
        assert_eq!(
            refusals(&STRATEGY, rule("10.0.0.1")),
            [
                r#"spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address"#
            ]
        );
        assert_eq!(refusals(&STRATEGY, rule("*.*.com")).len(), 1);
    }
}
