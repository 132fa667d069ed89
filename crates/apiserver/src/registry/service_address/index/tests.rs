//! Tests of the index of addresses and node ports.

use super::*;
use machinery::{Value, json};
use store::{Event, Record};

const PREFIX: &str = "/registry/services/specs";

fn key(name: &str) -> String {
    format!("{PREFIX}/default/{name}")
}

/// Stores a service at a revision, or deletes it.
fn write(cache: &ResourceCache, revision: Revision, name: &str, spec: Option<&Value>) {
    let key: Arc<str> = key(name).into();
    let record = |spec: &Value, revision: Revision| {
        let service = json!({"kind": "Service", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        let value = service.to_string().into();
        Arc::new(Record {
            key: Arc::clone(&key),
            value,
            created: revision,
            modified: revision,
            expires: None,
        })
    };
    let old = cache.get(&key).map(|entry| {
        let object = entry.object_as_stored().into_value();
        record(&object["spec"], entry.revision)
    });
    let new = spec.map(|spec| record(spec, revision));
    cache.apply(&Event { revision, key: Arc::clone(&key), new, old }).unwrap();
}

/// The spec of a service with this address and node port.
fn spec(address: &str, port: u16) -> Value {
    json!({"type": "NodePort", "clusterIP": address, "clusterIPs": [address],
        "ports": [{"port": 80, "nodePort": port}]})
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// Brings the index up to date, and returns the number of services that were parsed.
fn refresh(index: &mut AddressIndex, cache: &ResourceCache) -> usize {
    let unparsed = index.catch_up(cache);
    parse_all(&unparsed);
    assert!(index.catch_up(cache).is_empty());
    unparsed.len()
}

fn two_services() -> (ResourceCache, AddressIndex) {
    let cache = ResourceCache::new(PREFIX, 0, &Arc::default());
    write(&cache, 1, "a", Some(&spec("10.0.0.1", 30_001)));
    write(&cache, 2, "b", Some(&spec("10.0.0.2", 30_002)));
    let mut index = AddressIndex::default();
    assert_eq!(refresh(&mut index, &cache), 2);
    (cache, index)
}

#[test]
fn only_changed_services_are_parsed_again() {
    let (cache, mut index) = two_services();
    assert_eq!(refresh(&mut index, &cache), 0);
    write(&cache, 3, "a", Some(&spec("10.0.0.1", 30_003)));
    write(&cache, 4, "b", None);
    assert_eq!(refresh(&mut index, &cache), 1);
    assert!(index.has_port(30_003, None) && !index.has_port(30_001, None));
    assert!(!index.has_port(30_002, None) && !index.has_address(address("10.0.0.2"), None));
}

#[test]
fn a_gap_in_the_log_is_closed_by_a_snapshot() {
    let (cache, mut index) = two_services();
    write(&cache, 3, "a", None);
    write(&cache, 4, "c", Some(&spec("10.0.0.3", 30_003)));
    cache.compact(4);
    assert_eq!(refresh(&mut index, &cache), 1);
    let has = |it: &str| index.has_address(address(it), None);
    assert_eq!(["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(has), [false, true, true]);
}

#[test]
fn a_service_does_not_conflict_with_itself() {
    let (cache, mut index) = two_services();
    let own_key = key("a");
    assert!(!index.has_port(30_001, Some(&own_key)) && index.has_port(30_002, Some(&own_key)));
    assert!(!index.has_address(address("10.0.0.1"), Some(&own_key)));
    // Two services have the same port: each of them conflicts with the other.
    write(&cache, 3, "b", Some(&spec("10.0.0.2", 30_001)));
    refresh(&mut index, &cache);
    assert!(index.has_port(30_001, Some(&own_key)));
    write(&cache, 4, "b", None);
    refresh(&mut index, &cache);
    assert!(!index.has_port(30_001, Some(&own_key)) && index.has_port(30_001, None));
}

#[test]
fn a_service_that_changes_while_it_is_parsed_counts_in_its_newest_revision() {
    let (cache, mut index) = two_services();
    write(&cache, 3, "a", Some(&spec("10.0.0.1", 30_003)));
    let unparsed = index.catch_up(&cache);
    write(&cache, 4, "a", Some(&spec("10.0.0.1", 30_004)));
    parse_all(&unparsed);
    assert_eq!(refresh(&mut index, &cache), 1);
    assert!(index.has_port(30_004, None) && !index.has_port(30_003, None));
}
