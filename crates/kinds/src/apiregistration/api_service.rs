//! `APIService`: the server that serves a version of an API group.
//!
//! The server stores and shows these objects; `apiserver` forwards the requests.

use crate::table;
use crate::validation::rules::{
    add_invalid, dns_subdomain, range_message, required, supported_only,
};
use machinery::field_path::quote;
use machinery::fields::{at, default_value, flag, keep, list, map_mut, number, part, text, top};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{
    Column, Columns, Conventions, Now, Resource, Strategy, Version, drop_status,
    keep_all_but_status, keep_status,
};

/// The resource of the kind `APIService`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("apiregistration/v1.APIService", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        namespaced: false,
        categories: vec!["api-extensions".to_owned()],
        prefix: "/registry/apiregistration.k8s.io/apiservices".to_owned(),
        conventions: &Conventions::EXTENSION,
        ..table::resource("apiregistration.k8s.io", "APIService", "apiservices", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_create,
    prepare_update: keep_status,
    prepare_status,
    validate,
    validate_update: |new, _, errors| validate(new, errors),
    validate_status,
    validate_name: names::path_segment,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    column("Service", "The reference to the service that hosts this API endpoint."),
    column("Available", "Whether this service is available."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let service = part(top(object, "spec"), "service").map_or("Local".to_owned(), |service| {
        format!("{}/{}", text(service, "namespace"), text(service, "name"))
    });
    let conditions = list(top(object, "status"), "conditions");
    let available = conditions.iter().find(|it| text(it, "type") == "Available");
    let available = available.map_or("Unknown".to_owned(), |condition| {
        match (text(condition, "status"), text(condition, "reason")) {
            (status @ "True", _) | (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        }
    });
    vec![object.name().into(), service.into(), available.into(), age(object, now)]
}

fn defaults(object: &mut Object) {
    if let Some(service) = map_mut(object.map_at(&["spec"]), "service") {
        default_value(service, "port", 443.into());
    }
}

/// A local `APIService` is always available.
fn prepare_create(object: &mut Object) {
    drop_status(object);
    if part(top(object, "spec"), "service").is_none() {
        let now = object.meta_text("creationTimestamp").to_owned();
        let condition = json!({"type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available"});
        object.map_mut().insert("status".to_owned(), json!({"conditions": [condition]}));
    }
}

/// Updates of the status keep labels, annotations and other metadata.
fn prepare_status(new: &mut Object, old: &Object) {
    keep_all_but_status(new, old);
    let mut metadata = Object::new(new.metadata().cloned().unwrap_or_default());
    let stored = Object::new(old.metadata().cloned().unwrap_or_default());
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        keep(&mut metadata, &stored, key);
    }
    new.map_mut().insert("metadata".to_owned(), metadata.into_value());
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let name = format!("{version}.{group}");
    if !object.name().is_empty()
        && object.name() != name
        && names::path_segment(object.name()).is_empty()
    {
        let path = Path::root("metadata");
        let message = format!(r#"must be `spec.version+"."+spec.group`: {}"#, quote(&name));
        errors.invalid(&path.child("name"), object.name(), &message);
    }
    if !group.is_empty() {
        dns_subdomain(errors, &SPEC.child("group"), group);
    } else if version != "v1" {
        let message = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&SPEC.child("group"), message);
    }
    add_invalid(errors, &SPEC.child("version"), version, names::dns1035_label(version));
    for (key, max) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let value = number(spec, key);
        if value <= 0 || value > max {
            let message = format!("must be positive and less than {max}");
            errors.invalid(&SPEC.child(key), value, &message);
        }
    }
    validate_service(errors, spec);
}

fn validate_service(errors: &mut ErrorList, spec: &Value) {
    let bundle = text(spec, "caBundle");
    let is_insecure = flag(spec, "insecureSkipTLSVerify");
    let insecure = SPEC.child("insecureSkipTLSVerify");
    let Some(service) = part(spec, "service") else {
        if !bundle.is_empty() {
            // Upstream shows the length of the decoded bundle.
            let shown = format!("{} bytes", bundle.trim_end_matches('=').len() * 3 / 4);
            let message = "local APIServices may not have a caBundle";
            errors.invalid(&SPEC.child("caBundle"), shown, message);
        }
        if is_insecure {
            let message = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&insecure, true, message);
        }
        return;
    };
    let path = SPEC.child("service");
    required(errors, &path.child("namespace"), text(service, "namespace"));
    required(errors, &path.child("name"), text(service, "name"));
    let port = number(service, "port");
    if !(1..=65535).contains(&port) {
        let message = format!("port is not valid: {}", range_message(1, 65535));
        errors.invalid(&path.child("port"), port, &message);
    }
    if is_insecure && !bundle.is_empty() {
        errors.invalid(&insecure, true, "may not be true if caBundle is present");
    }
}

fn validate_status(new: &Object, _: &Object, errors: &mut ErrorList) {
    let path = Path::root("status");
    let path = path.child("conditions");
    let conditions = at(top(new, "status"), &["conditions"]).as_array();
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let statuses = &["True", "False", "Unknown"];
        let status = text(condition, "status");
        supported_only(errors, &path.index(index).child("status"), status, statuses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, object, refusals};

    fn service(name: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": "2024-05-06T07:08:09Z"},
            "spec": {"group": "g.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}})
    }

    #[test]
    fn the_name_is_version_and_group() {
        assert_eq!(refusals(&STRATEGY, service("v1.g.io")), Vec::<String>::new());
        assert_eq!(
            refusals(&STRATEGY, service("x")),
            [
                r#"metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.g.io""#
            ]
        );
    }

    #[test]
    fn local_api_services_are_available() {
        let service = object(created(&STRATEGY, service("v1.g.io")));
        let cells = cells(&service, &Now { unix_seconds: 0 });
        assert_eq!(cells[..3], ["v1.g.io", "Local", "True"].map(Value::from));
    }
}
