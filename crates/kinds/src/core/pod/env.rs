//! The environment variables of a container.

use crate::validation::quantities::amount;
use crate::validation::rules::{add_invalid, dns_label, no_backsteps, qualified_name, required};
use machinery::fields::{list, part, text};
use machinery::{ErrorList, Path, Value, names};

/// The fields of the pod that an environment variable may refer to.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields of the pod that a file in a volume may refer to.
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// All fields that upstream's conversion of field labels knows; fewer may be referred to.
const KNOWN_FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "spec.host",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that can be referred to.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// What gets the value of a `fieldRef` or `resourceFieldRef`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldRefConsumer {
    /// An environment variable; a resource is that of its own container by default.
    Variable,
    /// A file in a volume; a resource must be that of a named container.
    File,
}

/// Validates `env`.
pub(super) fn validate_env(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = path.index(index);
        let name = text(variable, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            add_invalid(errors, &path.child("name"), name, names::env_var_name(name));
        }
        if let Some(source) = part(variable, "valueFrom") {
            validate_source(errors, &path.child("valueFrom"), source, text(variable, "value"));
        }
    }
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, source: &Value, value: &str) {
    let mut count = 0;
    if let Some(field) = part(source, "fieldRef") {
        count += 1;
        validate_field_ref(errors, &path.child("fieldRef"), field, FieldRefConsumer::Variable);
    }
    if let Some(resource) = part(source, "resourceFieldRef") {
        count += 1;
        validate_resource_ref(
            errors,
            &path.child("resourceFieldRef"),
            resource,
            FieldRefConsumer::Variable,
        );
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(key) = part(source, kind) {
            count += 1;
            validate_key_ref(errors, &path.child(kind), key);
        }
    }
    if let Some(file) = part(source, "fileKeyRef") {
        count += 1;
        validate_file_ref(errors, &path.child("fileKeyRef"), file);
    }
    if count == 0 {
        let message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", message);
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Validates a reference to a field of the pod.
pub(super) fn validate_field_ref(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reference: &Value,
    consumer: FieldRefConsumer,
) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"), "");
    }
    let subscript = subscript_of(field);
    let problem = match subscript {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {field}")),
        None if KNOWN_FIELDS.contains(&field) => None,
        None => Some(format!("field label not supported: {field}")),
    };
    if let Some(problem) = problem {
        let message = format!("error converting fieldPath: {problem}");
        return errors.invalid(&path.child("fieldPath"), field, &message);
    }
    let allowed: &[&str] = match consumer {
        FieldRefConsumer::Variable => &VARIABLE_FIELDS,
        FieldRefConsumer::File => &VOLUME_FIELDS,
    };
    match subscript {
        Some(("metadata.annotations", key)) => qualified_name(errors, path, &key.to_lowercase()),
        Some((_, key)) => qualified_name(errors, path, key),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !allowed.contains(&field) {
                errors.not_supported(&path.child("fieldPath"), field, allowed);
            }
        }
    }
}

/// Splits `metadata.labels['key']` into the field and the key.
fn subscript_of(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// Validates a reference to the resources of a container.
pub(super) fn validate_resource_ref(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reference: &Value,
    consumer: FieldRefConsumer,
) {
    let resource = text(reference, "resource");
    let is_huge_pages =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if consumer == FieldRefConsumer::File && text(reference, "containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    validate_divisor(errors, &path.child("divisor"), resource, reference);
}

fn validate_divisor(errors: &mut ErrorList, path: &Path<'_>, resource: &str, reference: &Value) {
    const BYTES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let divisor = amount(reference.get("divisor").unwrap_or(&Value::Null));
    if divisor.is_zero() {
        return;
    }
    let shown = divisor.to_string();
    let (allowed, what): (&[&str], &str) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (&["1m", "1"], "cpu"),
        Some("memory") => (&BYTES, "memory"),
        Some("ephemeral-storage") => (&BYTES, "local ephemeral storage"),
        Some(name) if name.starts_with("hugepages-") => (&BYTES, "hugepages"),
        _ => return,
    };
    if !allowed.contains(&shown.as_str()) {
        let listed = if what == "cpu" { "1m and 1".to_owned() } else { allowed.join(", ") };
        let message =
            format!("only divisor's values {listed} are supported with the {what} resource");
        errors.invalid(path, resource, &message);
    }
}

/// Validates a reference to a key of a config map or a secret.
fn validate_key_ref(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    add_invalid(errors, &path.child("name"), name, names::dns1123_subdomain(name));
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        add_invalid(errors, &path.child("key"), key, names::config_map_key(key));
    }
}

/// Validates a reference to a key in a file that an earlier container wrote.
fn validate_file_ref(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let key = text(reference, "key");
    required(errors, &path.child("key"), key);
    if !key.is_empty() {
        add_invalid(errors, &path.child("key"), key, names::env_var_name(key));
    }
    let volume = text(reference, "volumeName");
    required(errors, &path.child("volumeName"), volume);
    if !volume.is_empty() {
        dns_label(errors, &path.child("volumeName"), volume);
    }
    required(errors, &path.child("path"), text(reference, "path"));
    no_backsteps(errors, &path.child("path"), text(reference, "path"));
}

/// Validates `envFrom`.
pub(super) fn validate_env_from(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let item = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            add_invalid(errors, &item.child("prefix"), prefix, names::env_var_name(prefix));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = part(source, kind) else { continue };
            count += 1;
            let (item, name) = (item.child(kind), text(reference, "name"));
            if name.is_empty() {
                errors.required(&item.child("name"), "");
            } else {
                add_invalid(errors, &item.child("name"), name, names::dns1123_subdomain(name));
            }
        }
        if count == 0 {
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(env: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_env(&mut errors, &Path::root("env"), &json!({"env": env}));
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_variable_requires_a_printable_name() {
        check(json!([{"name": "any thing!", "value": "x"}]), &[]);
        check(
            json!([{"value": "x"}, {"name": "a=b"}]),
            &[
                "env[0].name: Required value",
                r#"env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            ],
        );
    }

    #[test]
    fn a_variable_has_either_a_value_or_one_source() {
        check(
            json!([{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            &[
                r#"env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty"#,
            ],
        );
        check(
            json!([{"name": "A", "valueFrom": {}}]),
            &[
                r#"env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"#,
            ],
        );
    }

    #[test]
    fn only_supported_fields_can_be_referred_to() {
        let field = |path: &str| json!([{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}]);
        check(field("metadata.name"), &[]);
        check(field("metadata.labels['app']"), &[]);
        check(
            field("spec.image"),
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.image": error converting fieldPath: field label not supported: spec.image"#,
            ],
        );
        check(
            field("metadata.labels"),
            &[
                r#"env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs""#,
            ],
        );
    }

    #[test]
    fn an_unsupported_divisor_is_refused() {
        let resource = |divisor: &str| {
            json!([{"name": "A", "valueFrom": {"resourceFieldRef":
                {"resource": "limits.cpu", "divisor": divisor}}}])
        };
        check(resource("1m"), &[]);
        check(
            resource("10m"),
            &[
                r#"env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource"#,
            ],
        );
    }
}
