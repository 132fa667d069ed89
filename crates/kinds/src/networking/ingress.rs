//! `Ingress`: routes requests from outside to services, by host and path.

mod validate;

use std::collections::BTreeSet;

use super::GROUP;
use crate::table;
use machinery::fields::{at, list, part, text, top};
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age, column, first_of};
use types::resource::{
    Column, Columns, Now, Resource, Strategy, Version, drop_status, keep_status,
};

/// The resource of the kind `Ingress`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        ..table::v1("networking/v1.Ingress", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["ing".to_owned()],
        prefix: "/registry/ingress".to_owned(),
        ..table::resource(GROUP, "Ingress", "ingresses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: drop_status,
    prepare_update: keep_status,
    validate: validate::validate_create,
    validate_update: validate::validate_update,
    validate_status: validate::validate_status,
    generation: true,
    warnings,
    ..Strategy::DEFAULT
};

/// The deprecated annotation with the class of an ingress, which `ingressClassName` replaces.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

const COLUMNS: &[Column] = &[
    NAME,
    column("Class", "The class of the ingress, which determines the controller that serves it."),
    column("Hosts", "The hosts of the rules of the ingress, of which at most three are shown."),
    column("Address", "The addresses of the ingress, once its controller has set them."),
    column("Ports", "Ports of TLS configurations that open"),
    AGE,
];

/// The maximum number of hosts that are shown.
const MAX_SHOWN: usize = 3;

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let class = part(spec, "ingressClassName").and_then(Value::as_str).unwrap_or("<none>");
    let ports = if list(spec, "tls").is_empty() { "80" } else { "80, 443" };
    vec![
        object.name().into(),
        class.into(),
        hosts(spec).into(),
        addresses(top(object, "status")).into(),
        ports.into(),
        age(object, now),
    ]
}

fn hosts(spec: &Value) -> String {
    let rules = list(spec, "rules");
    let hosts: Vec<String> = rules
        .iter()
        .map(|rule| text(rule, "host").to_owned())
        .filter(|host| !host.is_empty())
        .take(MAX_SHOWN)
        .collect();
    match (hosts.len(), rules.len()) {
        (0, _) => "*".to_owned(),
        // As upstream: the number of further rules, not of further hosts.
        (MAX_SHOWN, rules) if rules > MAX_SHOWN => {
            format!("{} + {} more...", hosts.join(","), rules - MAX_SHOWN)
        }
        _ => first_of(&hosts, MAX_SHOWN, ","),
    }
}

fn addresses(status: &Value) -> String {
    let addresses: BTreeSet<&str> = list(at(status, &["loadBalancer"]), "ingress")
        .iter()
        .map(|point| match text(point, "ip") {
            "" => text(point, "hostname"),
            address => address,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn warnings(object: &Object) -> Vec<String> {
    object
        .annotation(CLASS_ANNOTATION)
        .filter(|_| part(top(object, "spec"), "ingressClassName").is_none())
        .map(|_| {
            format!(
                "annotation {} is deprecated, please use 'spec.ingressClassName' instead",
                machinery::field_path::quote(CLASS_ANNOTATION)
            )
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    #[test]
    fn the_table_shows_hosts_and_addresses() {
        let ingress = object(json!({"metadata": {"name": "a"},
            "spec": {"ingressClassName": "c", "tls": [{}], "rules": [{"host": "x"}, {"host": "y"}, {"host": "z"}, {"host": "w"}]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "1.2.3.4"}]}}}));
        let mut cells = cells(&ingress, &Now { unix_seconds: 0 });
        cells.pop();
        assert_eq!(cells, ["a", "c", "x,y,z + 1 more...", "1.2.3.4,h", "80, 443"]);
    }

    #[test]
    fn an_ingress_without_hosts_shows_a_star() {
        assert_eq!(hosts(&json!({"rules": [{}]})), "*");
    }
}
