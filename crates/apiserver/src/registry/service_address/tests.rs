//! Tests that invalid requests are rejected without the lock.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use keel::Entropy;
use machinery::{Value, json};

/// The time that a request may wait for the lock before the test fails.
const TIMEOUT: Duration = Duration::from_secs(30);

fn service(spec: &Value) -> Object {
    let service = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": spec});
    Object::from_value(service).unwrap()
}

/// Allocates addresses and ports for an invalid service while another request holds the lock.
fn check_rejected_while_locked(spec: &Value) {
    let allocator = ServiceAllocator::new("10.0.0.0/24").unwrap();
    let held = allocator.lock();
    for is_dry_run in [false, true] {
        let (sender, receiver) = mpsc::channel();
        let (allocator, mut object) = (allocator.clone(), service(spec));
        thread::spawn(move || {
            let cache = ResourceCache::new("/registry/services/specs", 0, &Arc::default());
            let entropy = Entropy::seeded(1);
            let services = Services { cache: &cache, own_key: None, entropy: &entropy };
            let is_rejected = if is_dry_run {
                allocator.allocate_dry_run(&services, &mut object, None).is_err()
            } else {
                allocator.allocate(&services, &mut object, None).is_err()
            };
            sender.send(is_rejected).unwrap();
        });
        let is_rejected =
            receiver.recv_timeout(TIMEOUT).expect("the request does not wait for the lock");
        assert!(is_rejected, "dry run: {is_dry_run}");
    }
    drop(held);
}

#[test]
fn too_many_addresses_are_rejected_without_the_lock() {
    let addresses: Vec<String> =
        (0..5000).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    check_rejected_while_locked(&json!({"type": "ClusterIP", "clusterIP": "10.0.0.0",
        "clusterIPs": addresses}));
}

#[test]
fn an_address_outside_of_the_network_is_rejected_without_the_lock() {
    check_rejected_while_locked(&json!({"type": "ClusterIP", "clusterIP": "10.1.0.1",
        "clusterIPs": ["10.1.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}));
}

#[test]
fn the_number_of_port_requests_is_bounded_by_the_range() {
    let ports: Vec<Value> = (1..60_000).map(|port| json!({"port": port})).collect();
    let object = service(&json!({"type": "NodePort", "ports": ports}));
    let requests = PortRequests::of(&object, None, PortRange::Checked);
    assert_eq!(requests.requests.len(), service::NODE_PORTS.len());
    assert_eq!(requests.error, Some(requests::PortError::Exhausted));
}
