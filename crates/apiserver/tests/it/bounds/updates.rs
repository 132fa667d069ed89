//! Updates that replace all entries of a long list: the work of a kind with the old and the new
//! object is linear.
//!
//! The functions of a kind are called without a server, whose other work takes several times as
//! long.

use std::time::Duration;

use super::{FACTOR, TICKS, thread_cpu_time};
use kinds::core::pod::security_standards::is_significant;
use machinery::{ErrorList, Object, Value, json};
use types::Resource;
use types::resource::{Action, Strategy};

/// Creates an element from its number.
type One = fn(usize) -> Value;

fn items(count: usize, first: usize, one: impl Fn(usize) -> Value) -> Value {
    (first..first + count).map(one).collect()
}

fn address(n: usize) -> String {
    format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250)
}

/// Calls all functions of a kind that an update uses.
fn update(strategy: &Strategy, new: &Object, old: &Object) {
    let mut changed = new.clone();
    (strategy.prepare_update)(&mut changed, old);
    let errors = &mut ErrorList::new();
    match strategy.validate_in {
        Some(validate) => validate(&changed, Some(old), "v1", errors),
        None => (strategy.validate_update)(&changed, old, errors),
    }
    let mut changed = new.clone();
    (strategy.prepare_status)(&mut changed, old);
    (strategy.validate_status)(&changed, old, &mut ErrorList::new());
    for subresource in strategy.subresources {
        let Action::Replace { prepare, validate, .. } = &subresource.action else { continue };
        let mut changed = new.clone();
        prepare(&mut changed, old);
        validate(&changed, old, &mut ErrorList::new());
    }
    (strategy.warnings)(new);
    if let Some(warnings) = strategy.update_warnings {
        warnings(new, old);
    }
}

/// Runs an update that replaces `size` entries of an object by others, in two sizes.
fn check_of(
    name: &str,
    size: usize,
    object: impl Fn(usize, usize) -> Value,
    run: impl Fn(&Object, &Object),
) {
    let spent = |size: usize| {
        let object = |first| Object::from_value(object(size, first)).unwrap();
        let (old, new) = (object(0), object(size));
        let before = thread_cpu_time();
        run(&new, &old);
        thread_cpu_time().saturating_sub(before)
    };
    let mut measured: Vec<(Duration, Duration)> = Vec::new();
    for _ in 0..4 {
        let (small, large) = (spent(size), spent(4 * size));
        if large <= small * FACTOR + TICKS {
            return;
        }
        measured.push((small, large));
    }
    panic!("{name}: superlinear CPU time: {measured:?}");
}

fn check(all: &[Resource], kind: &str, size: usize, object: impl Fn(usize, usize) -> Value) {
    let resource = all.iter().find(|it| it.kind == kind).unwrap();
    check_of(kind, size, object, |new, old| update(resource.strategy, new, old));
}

#[test]
fn updates_of_lists_of_addresses_take_linear_time() {
    let all = kinds::table::builtin();
    let one: One = |n| address(n).into();
    let range: One = |n| format!("{}/32", address(n)).into();
    check(
        &all,
        "Service",
        10_000,
        |count, first| json!({"spec": {"type": "ClusterIP", "externalIPs": items(count, first, one)}}),
    );
    check(&all, "Service", 10_000, |count, first| {
        let ranges = items(count, first, range);
        json!({"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ranges}})
    });
    check(&all, "NetworkPolicy", 10_000, |count, first| {
        let block = json!({"cidr": "10.0.0.0/8", "except": items(count, first, range)});
        json!({"spec": {"podSelector": {}, "egress": [{"to": [{"ipBlock": block}]}]}})
    });
    check(&all, "NetworkPolicy", 10_000, |count, first| {
        let peers = items(count, first, |n| json!({"ipBlock": {"cidr": range(n)}}));
        json!({"spec": {"podSelector": {}, "ingress": [{"from": peers}]}})
    });
}

#[test]
fn updates_of_addresses_in_a_status_take_linear_time() {
    let all = kinds::table::builtin();
    for kind in ["Service", "Ingress"] {
        check(&all, kind, 10_000, |count, first| {
            let points = items(count, first, |n| json!({"ip": address(n), "ipMode": "VIP"}));
            json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": points}}})
        });
    }
    check(&all, "Pod", 10_000, |count, first| {
        let addresses = items(count, first, |n| json!({"ip": address(n)}));
        json!({"spec": {}, "status": {"podIPs": addresses, "hostIPs": addresses}})
    });
}

#[test]
fn updates_of_container_statuses_take_linear_time() {
    let all = kinds::table::builtin();
    for (list, statuses) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        check(&all, "Pod", 1500, |count, first| {
            let state = json!({"terminated": {"exitCode": 1}});
            let status = |n: usize| json!({"name": format!("c{n}"), "state": state});
            let containers = items(count, count, |n| json!({"name": format!("c{n}")}));
            json!({"spec": {list: containers}, "status": {statuses: items(count, first, status)}})
        });
    }
}

#[test]
fn pod_security_of_ephemeral_containers_takes_linear_time() {
    let pod = |count: usize, first: usize| {
        let container = |n: usize| json!({"name": format!("c{n}"), "image": "i"});
        // The order differs, so that none of them is new.
        let mut containers = items(count, 0, container);
        if first > 0 {
            containers.as_array_mut().unwrap().reverse();
        }
        json!({"spec": {"ephemeralContainers": containers}})
    };
    check_of("Pod", 1500, pod, |new, old| assert!(!is_significant(new, old)));
}

#[test]
fn updates_of_ports_with_one_number_take_linear_time() {
    let all = kinds::table::builtin();
    check(&all, "Pod", 2000, |count, first| {
        let port = |n: usize| json!({"containerPort": 80, "hostPort": n + 1, "protocol": "TCP"});
        json!({"spec": {"containers": [{"name": "c", "ports": items(count, first, port)}]}})
    });
}

#[test]
fn releases_of_node_ports_take_linear_time() {
    let all = kinds::table::builtin();
    check(&all, "Service", 3000, |count, first| {
        let kind = if first == 0 { "NodePort" } else { "ClusterIP" };
        let port = |n: usize| json!({"port": 1, "name": format!("p{n}"), "nodePort": n + 1});
        let mut ports = items(count, 0, port);
        if first > 0 {
            ports.as_array_mut().unwrap().reverse();
        }
        json!({"spec": {"type": kind, "ports": ports}})
    });
}

#[test]
fn updates_of_csi_drivers_of_a_node_take_linear_time() {
    let all = kinds::table::builtin();
    check(&all, "CSINode", 1500, |count, first| {
        let driver = |n: usize| json!({"name": format!("d{n}"), "nodeID": "n"});
        json!({"spec": {"drivers": items(count, first, driver)}})
    });
}

#[test]
fn updates_of_versions_of_a_crd_take_linear_time() {
    let all = kinds::table::builtin();
    for has_schema in [true, false] {
        check(&all, "CustomResourceDefinition", 1000, |count, first| {
            let schema = |n: usize| json!({"type": "object", "description": format!("{n}")});
            let version = |n: usize| {
                if first == 0 || has_schema {
                    json!({"name": format!("v{n}"), "schema": {"openAPIV3Schema": schema(n)}})
                } else {
                    json!({"name": format!("v{n}")})
                }
            };
            json!({"spec": {"versions": items(count, first, version)}})
        });
    }
}

#[test]
fn updates_of_pod_failure_policy_rules_take_linear_time() {
    let all = kinds::table::builtin();
    check(&all, "Job", 800, |count, first| {
        let container = |n: usize| json!({"name": format!("c{n}"), "image": "i"});
        let codes =
            |n: usize| json!({"containerName": format!("x{n}"), "operator": "In", "values": [1]});
        let rule = |n: usize| json!({"action": "FailJob", "onExitCodes": codes(n)});
        let template = json!({"spec": {"containers": items(count, 0, container)}});
        let policy = json!({"rules": items(count, first, rule)});
        json!({"spec": {"template": template, "podFailurePolicy": policy}})
    });
}
