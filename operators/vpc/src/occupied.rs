//! [`Occupied`]: the addresses that Networks have, and what is in the way of a subnet.
//!
//! ```text
//! shop-0   10.0.0.0/17                     a subnet 10.0.0.0/18: Pending, until shop-0 is changed
//! shop-1   10.0.128.0/17  is being deleted      10.0.128.0/18:   WaitingForDeletion
//! lab-0    10.9.0.0/16    of another Vpc        10.9.0.0/17:     AddressesTaken
//! ```

use std::collections::BTreeMap;

use crate::{Cidr, Network};
use runtime::prelude::*;

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
            // Addresses that are not IPv4 are in no Vpc.
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
            let message = format!("{subnet} overlaps {cidr} of the Network {key}");
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
