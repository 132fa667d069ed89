//! Networks whose addresses overlap: refused by a webhook, and not made if the webhook missed one.

use crate::api::v2::Network;
use crate::backend::Desired;
use runtime::kube_core::admission::AdmissionRequest;
use runtime::prelude::*;
use runtime::webhook::{Allowed, Denied};

/// Validates a Network that is created or changed. Two that are created at the same moment may both
/// pass; the controller then makes the older one only.
pub(crate) fn validate(
    request: AdmissionRequest<Network>,
    networks: &Lister<Network>,
) -> Result<Allowed, Denied> {
    let Some(mut network) = request.object else { return Ok(Allowed::default()) };
    let desired = Desired::parse(&network.spec).map_err(|why| Denied::invalid("spec", why))?;
    // A new object need not have a namespace of its own.
    network.metadata.namespace = request.namespace;
    let others = networks.list().objects;
    match find(&network, &desired, others.iter()) {
        Some(why) => Err(Denied::invalid("spec.cidr", why)),
        None => Ok(Allowed::default()),
    }
}

/// Which older Network has some of the same addresses, as a text for people.
pub(crate) fn with_an_older_network(
    network: &Network,
    desired: &Desired,
    others: &[Network],
) -> Option<String> {
    let age = |network: &Network| {
        let created = network.metadata.creation_timestamp.clone().map(|time| time.0);
        (created, network.metadata.uid.clone())
    };
    find(network, desired, others.iter().filter(|other| age(other) < age(network)))
}

fn key(network: &Network) -> Request {
    Request::new(&network.namespace().unwrap_or_default(), &network.name_any())
}

fn find<'a>(
    network: &Network,
    desired: &Desired,
    mut others: impl Iterator<Item = &'a Network>,
) -> Option<String> {
    let cidr = desired.cidr();
    others.find_map(|other| {
        let theirs = Desired::parse(&other.spec).ok()?.cidr();
        let overlaps = theirs.contains(&cidr) || cidr.contains(&theirs);
        let is_another = key(other) != key(network);
        (overlaps && is_another)
            .then(|| format!("{cidr} overlaps {theirs} of the Network {}", key(other)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn network(name: &str, cidr: &str, created: &str) -> Network {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created},
            "spec": {"cidr": cidr, "gateway": "10.0.0.1"},
        }))
        .unwrap()
    }

    fn check(network: &Network, others: &[Network], expected: Option<&str>) {
        let desired = Desired::parse(&network.spec).unwrap();
        let overlap = with_an_older_network(network, &desired, others);
        assert_eq!(overlap.as_deref(), expected);
    }

    #[test]
    fn the_younger_of_two_overlapping_networks_is_refused() {
        let (old, new) = ("2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z");
        let both = [network("b", "10.0.0.0/8", old), network("c", "10.0.0.0/24", new)];
        let why = "10.0.0.0/24 overlaps 10.0.0.0/8 of the Network a/b";
        check(&both[0], &both, None);
        check(&both[1], &both, Some(why));
        // Of the same second: the one with the greater uid.
        let both = [network("b", "10.0.0.0/8", old), network("c", "10.0.0.0/24", old)];
        check(&both[0], &both, None);
        check(&both[1], &both, Some(why));
    }
}
