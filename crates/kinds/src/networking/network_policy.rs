//! `NetworkPolicy`: the allowed traffic to and from pods.

use super::GROUP;
use crate::table;
use crate::validation::address::{self, Stored};
use crate::validation::rules::{add_invalid, label_selector, port, supported_only};
use machinery::fields::{at, default_value, integer, list, maps_mut, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json, names};
use types::columns::{AGE, NAME, age, column, selector};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `NetworkPolicy`.
pub fn resource() -> Resource {
    let version = table::v1("networking/v1.NetworkPolicy", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["netpol".to_owned()],
        ..table::resource(GROUP, "NetworkPolicy", "networkpolicies", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    validate: |object, errors| validate(object, &Stored::new(), errors),
    validate_update: |new, old, errors| validate(new, &ranges(old), errors),
    generation: true,
    warnings,
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Pod-Selector",
        "The label selector of the pods in the namespace to which the policy applies.",
    ),
    AGE,
];

/// The two directions: (the field of the rules, the field of the peers in a rule).
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let pods = at(top(object, "spec"), &["podSelector"]);
    vec![object.name().into(), selector(pods).into(), age(object, now)]
}

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    for (rules, _) in DIRECTIONS {
        for rule in maps_mut(spec, rules) {
            for port in maps_mut(rule, "ports") {
                default_value(port, "protocol", "TCP".into());
            }
        }
    }
    let has = |key: &str| spec.get(key).and_then(Value::as_array).is_some_and(|it| !it.is_empty());
    if !has("policyTypes") {
        let types = if has("egress") { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}

/// Calls `visit` with the path and the value of every peer of a policy.
fn each_peer<'a>(policy: &'a Object, mut visit: impl FnMut(&Path<'_>, &'a Value)) {
    let spec = Path::root("spec");
    for (direction, peers) in DIRECTIONS {
        let path = spec.child(direction);
        for (index, rule) in list(top(policy, "spec"), direction).iter().enumerate() {
            let path = path.index(index);
            let path = path.child(peers);
            for (index, peer) in list(rule, peers).iter().enumerate() {
                visit(&path.index(index), peer);
            }
        }
    }
}

/// All IP ranges of a policy.
fn ranges(policy: &Object) -> Stored<'_> {
    let mut found = Stored::new();
    each_peer(policy, |_, peer| {
        let block = at(peer, &["ipBlock"]);
        found.insert(text(block, "cidr"));
        found.extend(texts(block, "except"));
    });
    found
}

fn validate(policy: &Object, stored: &Stored<'_>, errors: &mut ErrorList) {
    let spec = top(policy, "spec");
    let path = Path::root("spec");
    label_selector(errors, &path.child("podSelector"), at(spec, &["podSelector"]));
    for (direction, _) in DIRECTIONS {
        let path = path.child(direction);
        for (index, rule) in list(spec, direction).iter().enumerate() {
            let path = path.index(index);
            let path = path.child("ports");
            for (index, port) in list(rule, "ports").iter().enumerate() {
                validate_port(errors, &path.index(index), port);
            }
        }
    }
    each_peer(policy, |path, peer| validate_peer(errors, path, peer, stored));
    let path = path.child("policyTypes");
    let types = list(spec, "policyTypes");
    if types.len() > DIRECTIONS.len() {
        let message = "may not specify more than two policyTypes";
        return errors.invalid(&path, types.to_vec(), message);
    }
    for (index, kind) in texts(spec, "policyTypes").enumerate() {
        supported_only(errors, &path.index(index), kind, &["Ingress", "Egress"]);
    }
}

fn validate_port(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if part(value, "protocol").is_some() {
        let protocols = &["TCP", "UDP", "SCTP"];
        supported_only(errors, &path.child("protocol"), text(value, "protocol"), protocols);
    }
    let (first, last) = (path.child("port"), path.child("endPort"));
    let end = integer(value, "endPort");
    match (part(value, "port"), end) {
        (Some(Value::String(name)), end) => {
            if let Some(end) = end {
                let message = "may not be specified when `port` is non-numeric";
                errors.invalid(&last, end, message);
            }
            add_invalid(errors, &first, name, names::port_name(name));
        }
        (Some(begin), end) => {
            let begin = begin.as_i64().unwrap_or(0);
            port(errors, &first, begin);
            if let Some(end) = end {
                if end < begin {
                    errors.invalid(&last, end, "must be greater than or equal to `port`");
                }
                port(errors, &last, end);
            }
        }
        (None, Some(end)) => {
            errors.invalid(&last, end, "may not be specified when `port` is not specified");
        }
        (None, None) => {}
    }
}

fn validate_peer(errors: &mut ErrorList, path: &Path<'_>, peer: &Value, stored: &Stored<'_>) {
    let mut count = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = part(peer, key) {
            count += 1;
            label_selector(errors, &path.child(key), selector);
        }
    }
    match (count, part(peer, "ipBlock")) {
        (0, None) => errors.required(path, "must specify a peer"),
        (_, None) => {}
        (count, Some(block)) => {
            validate_block(errors, &path.child("ipBlock"), block, stored);
            if count > 0 {
                errors.forbidden(path, "may not specify both ipBlock and another peer");
            }
        }
    }
}

fn validate_block(errors: &mut ErrorList, path: &Path<'_>, block: &Value, stored: &Stored<'_>) {
    let range = text(block, "cidr");
    if range.is_empty() {
        return errors.required(&path.child("cidr"), "");
    }
    address::cidr(errors, &path.child("cidr"), range, stored);
    let path = path.child("except");
    for (index, except) in texts(block, "except").enumerate() {
        let path = path.index(index);
        address::cidr(errors, &path, except, stored);
        if address::is_strictly_within(except, range) == Some(false) {
            errors.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

fn warnings(policy: &Object) -> Vec<String> {
    let mut found = Vec::new();
    each_peer(policy, |path, peer| {
        let Some(block) = part(peer, "ipBlock") else { return };
        let path = path.child("ipBlock");
        found.extend(address::cidr_warnings(&path.child("cidr"), text(block, "cidr")));
        let path = path.child("except");
        for (index, except) in texts(block, "except").enumerate() {
            found.extend(address::cidr_warnings(&path.index(index), except));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals, refusals_of_update};

    fn from(peer: Value) -> Value {
        json!({"spec": {"ingress": [{"from": [peer]}]}})
    }

    #[test]
    fn egress_rules_add_egress_to_the_default_policy_types() {
        let policy = json!({"spec": {"egress": [{"ports": [{"port": 53}]}]}});
        assert_eq!(
            created(&STRATEGY, policy),
            json!({"spec": {"egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                "policyTypes": ["Ingress", "Egress"]}})
        );
    }

    #[test]
    fn a_peer_is_either_a_selector_or_an_ip_block() {
        assert_eq!(
            refusals(&STRATEGY, from(json!({}))),
            ["spec.ingress[0].from[0]: Required value: must specify a peer"]
        );
        assert_eq!(
            refusals(
                &STRATEGY,
                from(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}))
            ),
            ["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"]
        );
    }

    #[test]
    fn exceptions_must_be_strict_subsets_of_the_range() {
        assert_eq!(
            refusals(
                &STRATEGY,
                from(
                    json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16", "10.0.0.0/8"]}})
                )
            ),
            [
                r#"spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
                r#"spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`"#,
            ]
        );
    }

    #[test]
    fn a_stored_range_may_remain_non_canonical() {
        let non_canonical = || from(json!({"ipBlock": {"cidr": "010.0.0.0/8"}}));
        assert_eq!(refusals(&STRATEGY, non_canonical()).len(), 1);
        assert_eq!(
            refusals_of_update(&STRATEGY, non_canonical(), non_canonical()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn an_end_port_requires_a_numeric_port_that_is_not_greater() {
        assert_eq!(
            refusals(
                &STRATEGY,
                json!({"spec": {"ingress": [{"ports": [{"port": 90, "endPort": 80}, {"port": "http", "endPort": 80}, {"endPort": 80}]}]}})
            ),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 80: may not be specified when `port` is non-numeric",
                "spec.ingress[0].ports[2].endPort: Invalid value: 80: may not be specified when `port` is not specified",
            ]
        );
    }
}
