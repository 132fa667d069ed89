//! Validation of updates of a pod's status.

use std::collections::HashMap;

use super::annotations;
use crate::validation::address::{self, Stored};
use crate::validation::go_struct;
use crate::validation::rules::{add_invalid, immutable, qualified_name};
use machinery::field_path::ErrorType;
use machinery::fields::{at, list, number, part, text, top};
use machinery::{ErrorList, Object, Path, Value, names};

static STATUS: Path<'static> = Path::root("status");

/// Validates an update of a pod's status.
pub(super) fn validate_status(new: &Object, old: &Object, errors: &mut ErrorList) {
    annotations::validate_change(errors, top(new, "metadata"), top(old, "metadata"));
    annotations::validate_pod(errors, top(new, "metadata"), top(new, "spec"));
    let (spec, new, old) = (top(old, "spec"), top(new, "status"), top(old, "status"));
    validate_conditions(errors, new);
    validate_nomination(errors, new, old, spec);
    if number(new, "observedGeneration") < 0 {
        let path = STATUS.child("observedGeneration");
        errors.invalid(&path, number(new, "observedGeneration"), "must be a non-negative integer");
    }
    let (new_class, old_class) = (at(new, &["qosClass"]), at(old, &["qosClass"]));
    immutable(errors, &STATUS.child("qosClass"), new_class, old_class);
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_container_states(errors, field, new, old, spec);
    }
    validate_addresses(errors, new, old, "podIPs", "podIP");
    validate_addresses(errors, new, old, "hostIPs", "hostIP");
}

fn validate_conditions(errors: &mut ErrorList, status: &Value) {
    let path = STATUS.child("conditions");
    for (index, condition) in list(status, "conditions").iter().enumerate() {
        let path = path.index(index);
        let generation = number(condition, "observedGeneration");
        if generation < 0 {
            let message = "must be a non-negative integer";
            errors.invalid(&path.child("observedGeneration"), generation, message);
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            qualified_name(errors, &path.child("Type"), kind);
        }
    }
}

fn validate_nomination(errors: &mut ErrorList, new: &Value, old: &Value, spec: &Value) {
    let path = STATUS.child("nominatedNodeName");
    let node = text(new, "nominatedNodeName");
    if node.is_empty() || node == text(old, "nominatedNodeName") {
        return;
    }
    add_invalid(errors, &path, node, names::dns1123_subdomain(node));
    if !text(spec, "nodeName").is_empty() {
        errors.forbidden(&path, "may not be set on pods that are already bound to a node");
    }
}

/// The elements by name; the first one if several have the same name.
fn by_name(elements: &[Value]) -> HashMap<&str, &Value> {
    elements.iter().rev().map(|element| (text(element, "name"), element)).collect()
}

/// Validates that a terminated container only runs again if its restart policy allows it.
fn validate_container_states(
    errors: &mut ErrorList,
    field: &str,
    new: &Value,
    old: &Value,
    spec: &Value,
) {
    let path = STATUS.child(field);
    let statuses = by_name(list(new, field));
    let containers = by_name(match field {
        "containerStatuses" => list(spec, "containers"),
        "initContainerStatuses" => list(spec, "initContainers"),
        _ => &[],
    });
    for (index, before) in list(old, field).iter().enumerate() {
        let Some(terminated) = part(at(before, &["state"]), "terminated") else { continue };
        let name = text(before, "name");
        let runs_again = statuses
            .get(name)
            .is_some_and(|after| part(at(after, &["state"]), "terminated").is_none());
        let exit_code = number(terminated, "exitCode");
        let is_allowed =
            containers.get(name).is_some_and(|container| may_restart(container, spec, exit_code));
        if runs_again && !is_allowed {
            let message = "may not be transitioned to non-terminated state";
            errors.forbidden(&path.index(index).child("state"), message);
        }
    }
}

fn may_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    if list(container, "restartPolicyRules").iter().any(|rule| applies(rule, exit_code)) {
        return true;
    }
    let policy = match text(container, "restartPolicy") {
        "" => text(spec, "restartPolicy"),
        policy => policy,
    };
    match policy {
        "Always" => true,
        "OnFailure" => exit_code != 0,
        _ => false,
    }
}

fn applies(rule: &Value, exit_code: i64) -> bool {
    let codes = at(rule, &["exitCodes"]);
    let is_listed = list(codes, "values").iter().any(|code| code.as_i64() == Some(exit_code));
    match text(codes, "operator") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    }
}

/// Validates a list of addresses: at most one of each IP family, the first of which equals the
/// older field `single`.
fn validate_addresses(errors: &mut ErrorList, new: &Value, old: &Value, field: &str, single: &str) {
    let of = |status| list(status, field).iter().map(|it| text(it, "ip")).collect::<Vec<&str>>();
    let (addresses, stored) = (of(new), Stored::from_iter(of(old)));
    let path = STATUS.child(field);
    for (index, address) in addresses.iter().enumerate() {
        address::ip(errors, &path.index(index), address, &stored);
    }
    let list_type = if field == "podIPs" { "PodIP" } else { "HostIP" };
    let mut refuse = |message: &str| {
        let shown = go_struct::line_of_list(list_type, list(new, field));
        let detail = format!("{shown}: {message}");
        errors.add(ErrorType::Invalid, &path, None, &detail);
    };
    if addresses.len() > 2 || (addresses.len() == 2 && !address::is_dual_stack(&addresses)) {
        refuse("may specify no more than one IP for each IP family");
    }
    let first = addresses.first().copied().unwrap_or_default();
    let single_address = text(new, single);
    if field == "podIPs" && single_address.is_empty() != addresses.is_empty() {
        refuse("podIP and podIPs must either both be set or both be unset");
    } else if !addresses.is_empty() && first != single_address {
        let path = path.index(0);
        errors.invalid(&path.child("ip"), first, &format!("must be equal to `{single}`"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};
    use machinery::json;

    fn check(new: Value, old: Value, expected: &[&str]) {
        let spec = json!({"restartPolicy": "OnFailure", "containers": [{"name": "c"}]});
        let mut errors = ErrorList::new();
        let pod = |status| object(json!({"spec": spec, "status": status}));
        validate_status(&pod(new), &pod(old), &mut errors);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn a_succeeded_container_cannot_run_again_with_restart_policy_on_failure() {
        let ended = |code| json!({"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": code}}}]});
        let running = json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        check(running.clone(), ended(1), &[]);
        check(
            running,
            ended(0),
            &[
                "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
            ],
        );
    }

    #[test]
    fn pod_ips_have_at_most_one_address_of_each_family() {
        check(json!({"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}), json!({}), &[]);
        check(
            json!({"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]}),
            json!({}),
            &[
                r#"status.podIPs: Invalid value: [{"IP":"192.0.2.1"},{"IP":"192.0.2.2"}]: may specify no more than one IP for each IP family"#,
            ],
        );
    }

    #[test]
    fn the_qos_class_is_immutable() {
        check(
            json!({"qosClass": "Burstable"}),
            json!({"qosClass": "BestEffort"}),
            &[r#"status.qosClass: Invalid value: "Burstable": field is immutable"#],
        );
    }
}
