//! Networks whose addresses overlap: refused by a webhook, and not made if the webhook missed one.
//!
//! A refusal names a Network of the same namespace only: who may create Networks in one namespace need
//! not be allowed to read those of others.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::address_index::{AddressIndex, cidr_of};
use crate::api::v2::Network;
use crate::backend::Desired;
use runtime::informer::Item;
use runtime::kube_core::admission::AdmissionRequest;
use runtime::prelude::*;
use runtime::webhook::{Allowed, Denied};

/// Validates a Network that is created or changed. Two that are created at the same moment may both
/// pass; the controller then makes the older one only.
pub(crate) fn validate(
    request: AdmissionRequest<Network>,
    addresses: &AddressIndex,
) -> Result<Allowed, Denied> {
    let Some(mut network) = request.object else { return Ok(Allowed::default()) };
    let desired = Desired::parse(&network.spec)
        .map_err(|error| Denied::invalid(&format!("spec.{}", error.field), error.to_string()))?;
    // A new object need not have a namespace of its own.
    network.metadata.namespace = request.namespace;
    let key = key(&network);
    match refusal(&key, &desired, &addresses.overlaps(&key, desired.cidr())) {
        Some(why) => Err(Denied::invalid("spec.cidr", why)),
        None => Ok(Allowed::default()),
    }
}

/// Whether an older Network has some of the same addresses, as a text for people.
pub(crate) fn with_an_older_network(
    network: &Network,
    desired: &Desired,
    addresses: &AddressIndex,
) -> Option<String> {
    let key = key(network);
    let age = (network.metadata.creation_timestamp.clone(), network.metadata.uid.as_deref());
    let mut others = addresses.overlaps(&key, desired.cidr());
    others.retain(|other| {
        let created = other.decode_metadata::<Time>("creationTimestamp").ok().flatten();
        (created, Some(other.uid())) < age
    });
    refusal(&key, desired, &others)
}

fn key(network: &Network) -> Request {
    Request::new(&network.namespace().unwrap_or_default(), &network.name_any())
}

/// Why `network` is refused, if there are others with the same addresses.
fn refusal(network: &Request, desired: &Desired, others: &[Item]) -> Option<String> {
    let cidr = desired.cidr();
    let is_readable = |other: &&Item| other.namespace() == network.namespace();
    let Some(other) = others.iter().find(is_readable) else {
        return (!others.is_empty()).then(|| format!("{cidr} overlaps an existing network"));
    };
    let theirs = cidr_of(other).map(|theirs| format!("{theirs} of ")).unwrap_or_default();
    Some(format!("{cidr} overlaps {theirs}the Network {}", other.key()))
}

#[cfg(test)]
mod tests {
    use std::slice;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use runtime::informer::Indexer;

    fn network(key: &str, cidr: &str, created: &str) -> Value {
        let (namespace, name) = key.split_once('/').unwrap();
        json!({
            "metadata": {"name": name, "namespace": namespace, "uid": name,
                "creationTimestamp": created},
            "spec": {"cidr": cidr, "gateway": "10.0.0.1"},
        })
    }

    fn check(network: &Value, others: &[Value], expected: Option<&str>) {
        let indexer = Arc::new(Indexer::new());
        let addresses = AddressIndex::new(&indexer);
        for other in others {
            indexer.insert(Item::parse(other.to_string()).unwrap());
        }
        let network: Network = serde_json::from_value(network.clone()).unwrap();
        let desired = Desired::parse(&network.spec).unwrap();
        let overlap = with_an_older_network(&network, &desired, &addresses);
        assert_eq!(overlap.as_deref(), expected);
    }

    #[test]
    fn the_younger_of_two_overlapping_networks_is_refused() {
        let (old, new) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z");
        let both = [network("a/b", "10.0.0.0/8", old), network("a/c", "10.0.0.0/24", new)];
        let why = "10.0.0.0/24 overlaps 10.0.0.0/8 of the Network a/b";
        check(&both[0], &both, None);
        check(&both[1], &both, Some(why));
        // Of the same second: the one with the greater uid.
        let both = [network("a/b", "10.0.0.0/8", old), network("a/c", "10.0.0.0/24", old)];
        check(&both[0], &both, None);
        check(&both[1], &both, Some(why));
    }

    #[test]
    fn a_network_of_another_namespace_is_not_named() {
        let (old, new) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z");
        let theirs = network("a/secret", "10.0.0.0/8", old);
        let other = network("b/own", "10.0.0.0/16", old);
        let refused = network("b/c", "10.0.0.0/24", new);
        let overlap = "10.0.0.0/24 overlaps an existing network";
        check(&refused, slice::from_ref(&theirs), Some(overlap));
        let why = "10.0.0.0/24 overlaps 10.0.0.0/16 of the Network b/own";
        check(&refused, &[theirs, other], Some(why));
    }
}
