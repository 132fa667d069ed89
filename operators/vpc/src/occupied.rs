//! [`Occupied`]: the addresses that Networks have, and what is in the way of a subnet.
//!
//! ```text
//! shop-0   10.0.0.0/17                     a subnet 10.0.0.0/18: Pending, until shop-0 is changed
//! shop-1   10.0.128.0/17  is being deleted      10.0.128.0/18:   WaitingForDeletion
//! lab-0    10.9.0.0/16    of another Vpc        10.9.0.0/17:     AddressesTaken
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{Cidr, Network};
use runtime::informer::{Indexer, NoSuchIndex};
use runtime::prelude::*;

/// The index of Networks by their addresses.
const INDEX: &str = "cidr";

/// The part of a Network that the index reads.
#[derive(Deserialize)]
struct Addresses {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    cidr: String,
}

/// Adds the index to the cache of the Networks.
pub(crate) fn add_index(networks: &Indexer) {
    networks.add_typed_index(INDEX, |network: &Addresses| vec![network.spec.cidr.clone()]);
}

/// The Networks that have addresses of `block`. Others are not decoded.
pub(crate) fn overlapping(
    networks: &Lister<Network>,
    block: Cidr,
) -> Result<Vec<Network>, NoSuchIndex> {
    let mut found = Vec::new();
    for cidr in networks.indexer().index_values(INDEX)? {
        // Addresses that are not IPv4 are in no Vpc.
        if cidr.parse().is_ok_and(|other: Cidr| other.overlaps(block)) {
            found.extend(networks.by_index(INDEX, &cidr)?.objects);
        }
    }
    Ok(found)
}

/// Why a subnet cannot have its Network yet, with a message. Ordered by what people should read first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// A Network that does not belong to the Vpc has the name.
    NameTaken(String),
    /// A Network that does not belong to the Vpc has an address.
    AddressesTaken(String),
    /// A Network of the Vpc has an address until it is changed, or until a cache has its change.
    Pending(String),
    /// A Network that is being deleted has the name or an address.
    WaitingForDeletion(String),
}

impl Obstacle {
    /// The reason in the condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NameTaken(_) => "NameTaken",
            Self::AddressesTaken(_) => "AddressesTaken",
            Self::Pending(_) => "Pending",
            Self::WaitingForDeletion(_) => "WaitingForDeletion",
        }
    }

    /// The message in the condition.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::NameTaken(message)
            | Self::AddressesTaken(message)
            | Self::Pending(message)
            | Self::WaitingForDeletion(message) => message,
        }
    }

    /// Whether it goes away without somebody's help.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, Self::Pending(_) | Self::WaitingForDeletion(_))
    }
}

/// See the [module documentation](self). Two Networks cannot have the same address, in any namespace.
pub(crate) struct Occupied(BTreeMap<Request, Occupant>);

struct Occupant {
    cidr: Cidr,
    is_own: bool,
    is_being_deleted: bool,
}

impl Occupied {
    /// The addresses of these Networks; `is_own` says which belong to the Vpc.
    pub(crate) fn new<'a>(
        networks: impl IntoIterator<Item = &'a Network>,
        is_own: impl Fn(&Network) -> bool,
    ) -> Self {
        let occupants = networks.into_iter().filter_map(|network| {
            let cidr = network.spec.cidr.parse().ok()?;
            let is_being_deleted = network.metadata.deletion_timestamp.is_some();
            Some((key(network), Occupant { cidr, is_own: is_own(network), is_being_deleted }))
        });
        Self(occupants.collect())
    }

    /// What another Network than `network` has of the addresses `subnet`.
    pub(crate) fn obstacle(&self, network: &Network, subnet: Cidr) -> Option<Obstacle> {
        let own_key = key(network);
        let others =
            self.0.iter().filter(|(key, other)| **key != own_key && other.cidr.overlaps(subnet));
        let obstacles = others.map(|(key, other)| {
            let cidr = other.cidr;
            // Who reads the Vpc need not be allowed to read Networks of other namespaces.
            let message = if key.namespace() == own_key.namespace() {
                format!("{subnet} overlaps {cidr} of the Network {key}")
            } else {
                format!("{subnet} overlaps an existing network")
            };
            if other.is_being_deleted {
                Obstacle::WaitingForDeletion(format!("{message}, which is being deleted"))
            } else if other.is_own {
                Obstacle::Pending(message)
            } else {
                Obstacle::AddressesTaken(message)
            }
        });
        obstacles.min()
    }

    /// Records that a Network of the Vpc was created or changed.
    pub(crate) fn insert(&mut self, network: &Network, cidr: Cidr) {
        self.0.insert(key(network), Occupant { cidr, is_own: true, is_being_deleted: false });
    }

    /// Records that a Network was deleted. With finalizers, it still exists.
    pub(crate) fn delete(&mut self, network: &Network, exists: bool) {
        if !exists {
            self.0.remove(&key(network));
        } else if let Some(occupant) = self.0.get_mut(&key(network)) {
            occupant.is_being_deleted = true;
        }
    }
}

fn key(network: &Network) -> Request {
    Request::new(&network.namespace().unwrap_or_default(), &network.name_any())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use runtime::informer::Item;

    #[test]
    fn only_networks_of_the_block_are_decoded_and_only_those_of_the_namespace_are_named() {
        let indexer = Arc::new(Indexer::new());
        add_index(&indexer);
        for (namespace, name, cidr, annotations) in [
            ("a", "own", "10.0.0.0/24", json!({})),
            ("b", "secret", "10.0.1.0/24", json!({})),
            // Cannot be decoded as a whole.
            ("b", "elsewhere", "10.9.0.0/24", json!(7)),
            ("b", "v6", "fd00::/64", json!(7)),
        ] {
            let metadata =
                json!({"namespace": namespace, "name": name, "annotations": annotations});
            let network = json!({"metadata": metadata, "spec": {"cidr": cidr, "gateway": ""}});
            indexer.insert(Item::parse(network.to_string()).unwrap());
        }
        let lister = Lister::<Network>::new(Arc::clone(&indexer));
        let listed = overlapping(&lister, "10.0.0.0/16".parse().unwrap()).unwrap();
        let names: Vec<_> = listed.iter().map(Network::name_any).collect();
        assert_eq!(names, ["own", "secret"]);

        let occupied = Occupied::new(&listed, |_| false);
        let mut network = listed[0].clone();
        network.metadata.name = Some("new".to_owned());
        let obstacle = |subnet: &str| {
            let obstacle = occupied.obstacle(&network, subnet.parse().unwrap()).unwrap();
            obstacle.message().to_owned()
        };
        let own = "10.0.0.0/25 overlaps 10.0.0.0/24 of the Network a/own";
        assert_eq!(obstacle("10.0.0.0/25"), own);
        assert_eq!(obstacle("10.0.1.0/25"), "10.0.1.0/25 overlaps an existing network");
    }
}
