//! `IngressClass`: the controller that serves the ingresses of a class.

use super::GROUP;
use crate::table;
use crate::validation::rules::{
    add_invalid, dns_subdomain, immutable, required_segment, supported_only,
};
use machinery::fields::{default_value, map_mut, part, text, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `IngressClass`.
pub fn resource() -> Resource {
    let version = table::v1("networking/v1.IngressClass", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "IngressClass", "ingressclasses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate,
    validate_update: |new, old, errors| {
        let controller = |object| Value::from(text(top(object, "spec"), "controller"));
        immutable(errors, &SPEC.child("controller"), &controller(new), &controller(old));
        validate(new, errors);
    },
    generation: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const MAX_CONTROLLER: usize = 250;

const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "Controller that is responsible for handling this class"),
    column("Parameters", "A reference to a resource with additional parameters"),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
    let spec = top(object, "spec");
    let mark = if object.annotation(DEFAULT) == Some("true") { " (default)" } else { "" };
    let parameters = part(spec, "parameters").map_or("<none>".to_owned(), |it| {
        let group = part(it, "apiGroup").and_then(Value::as_str).map(|group| format!(".{group}"));
        format!("{}{}/{}", text(it, "kind"), group.unwrap_or_default(), text(it, "name"))
    });
    vec![
        format!("{}{mark}", object.name()).into(),
        text(spec, "controller").into(),
        parameters.into(),
        age(object, now),
    ]
}

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    if let Some(parameters) = map_mut(spec, "parameters") {
        default_value(parameters, "scope", "Cluster".into());
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    validate_controller(errors, &SPEC.child("controller"), text(spec, "controller"));
    if let Some(parameters) = part(spec, "parameters") {
        validate_parameters(errors, &SPEC.child("parameters"), parameters);
    }
}

/// A controller is a domain and a path below it.
fn validate_controller(errors: &mut ErrorList, path: &Path<'_>, controller: &str) {
    if controller.len() > MAX_CONTROLLER {
        errors.too_long(path, MAX_CONTROLLER);
    }
    if controller.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) =
        controller.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let message = r#"must be a domain-prefixed path (such as "acme.io/foo")"#;
        return errors.invalid(path, controller, message);
    };
    dns_subdomain(errors, path, host);
    if !rest.chars().all(|it| it.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(it)) {
        let message =
            r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid(path, rest, message);
    }
}

fn validate_parameters(errors: &mut ErrorList, path: &Path<'_>, parameters: &Value) {
    if let Some(group) = part(parameters, "apiGroup").and_then(Value::as_str) {
        dns_subdomain(errors, &path.child("apiGroup"), group);
    }
    required_segment(errors, &path.child("kind"), text(parameters, "kind"));
    required_segment(errors, &path.child("name"), text(parameters, "name"));
    let namespace = part(parameters, "namespace").and_then(Value::as_str);
    let namespace_path = path.child("namespace");
    match (text(parameters, "scope"), namespace) {
        ("Namespace", None) => {
            errors.required(&namespace_path, "`parameters.scope` is set to 'Namespace'");
        }
        ("Namespace", Some(namespace)) => {
            add_invalid(errors, &namespace_path, namespace, names::namespace_name(namespace));
        }
        ("Cluster", Some(_)) => {
            errors.forbidden(&namespace_path, "`parameters.scope` is set to 'Cluster'");
        }
        (scope, _) => {
            supported_only(errors, &path.child("scope"), scope, &["Cluster", "Namespace"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::json;

    #[test]
    fn a_controller_must_be_domain_prefixed() {
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"controller": "nginx"}})),
            [
                r#"spec.controller: Invalid value: "nginx": must be a domain-prefixed path (such as "acme.io/foo")"#
            ]
        );
    }

    #[test]
    fn the_controller_is_immutable() {
        let class = |name: &str| json!({"spec": {"controller": name}});
        assert_eq!(
            refusals_of_update(&STRATEGY, class("a.io/b"), class("a.io/a")),
            [r#"spec.controller: Invalid value: "a.io/b": field is immutable"#]
        );
    }

    #[test]
    fn namespaced_parameters_need_a_namespace() {
        let parameters = json!({"kind": "K", "name": "n", "scope": "Namespace"});
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"spec": {"controller": "a.io/a", "parameters": parameters}})
            ),
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]
        );
    }
}
