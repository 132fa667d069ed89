//! The subsets of `Endpoints`: addresses that have the same ports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The maximum number of addresses in `Endpoints`.
pub(super) const MAX_ADDRESSES: usize = 1000;

/// Addresses with the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Subset {
    /// The addresses of pods that are ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    /// The addresses of other pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    /// The ports of each address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
}

/// An address, ordered by IP and uid.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Address {
    /// The IP address.
    pub ip: String,
    /// The host name in the domain of the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The node of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// A reference to the pod of an address. A resourceVersion is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

/// A port of all addresses of a subset.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Port {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub port: i32,
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// An address is identified by its IP and the uid of its pod.
type AddressKey<'a> = (&'a str, &'a str);

impl Address {
    fn key(&self) -> AddressKey<'_> {
        (&self.ip, self.target_ref.as_ref().map_or("", |target| &target.uid))
    }
}

/// Packs subsets into as few as possible: each set of addresses occurs once, with all its ports. An
/// address that is ready in one subset and not in another is not ready.
///
/// Upstream: pkg/api/v1/endpoints/util.go `RepackSubsets`, which orders ports and subsets by hashes.
pub(crate) fn repack(subsets: &[Subset]) -> Vec<Subset> {
    let mut addresses: BTreeMap<AddressKey<'_>, &Address> = BTreeMap::new();
    // `None` for addresses without a port.
    let mut by_port: BTreeMap<Option<&Port>, BTreeMap<AddressKey<'_>, bool>> = BTreeMap::new();
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        let ports: Vec<Option<&Port>> = match subset.ports.as_slice() {
            [] => vec![None],
            ports => ports.iter().map(Some).collect(),
        };
        for (address, is_ready) in ready.chain(not_ready) {
            addresses.entry(address.key()).or_insert(address);
            for port in &ports {
                let known = by_port.entry(*port).or_default();
                let state = known.entry(address.key()).or_insert(is_ready);
                *state = *state && is_ready;
            }
        }
    }
    let mut by_addresses: BTreeMap<Vec<(AddressKey<'_>, bool)>, Vec<Port>> = BTreeMap::new();
    for (port, known) in by_port {
        let ports = by_addresses.entry(known.into_iter().collect()).or_default();
        ports.extend(port.cloned());
    }
    let mut packed: Vec<Subset> = by_addresses
        .into_iter()
        .map(|(known, ports)| {
            let having = |ready: bool| {
                let matching = known.iter().filter(move |(_, is_ready)| *is_ready == ready);
                matching.map(|(key, _)| addresses[key].clone()).collect()
            };
            Subset { addresses: having(true), not_ready_addresses: having(false), ports }
        })
        .collect();
    packed.sort_by(|one, other| one.ports.cmp(&other.ports));
    packed
}

/// The number of addresses.
pub(super) fn count(subsets: &[Subset]) -> usize {
    subsets.iter().map(|it| it.addresses.len() + it.not_ready_addresses.len()).sum()
}

/// Removes addresses beyond [`MAX_ADDRESSES`], first those that are not ready, from each subset in
/// proportion. Returns whether there were too many.
pub(super) fn truncate(subsets: &mut [Subset]) -> bool {
    if count(subsets) <= MAX_ADDRESSES {
        return false;
    }
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready = count(subsets) - ready;
    let (limit, total) = match MAX_ADDRESSES.checked_sub(ready) {
        Some(left) => (left, not_ready),
        None => (MAX_ADDRESSES, ready),
    };
    let mut left = limit;
    for subset in subsets {
        let addresses = if ready > MAX_ADDRESSES {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        let share = (addresses.len() * limit).div_ceil(total).min(left);
        addresses.truncate(share);
        left -= addresses.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str) -> Address {
        Address { ip: ip.to_owned(), ..Address::default() }
    }

    fn port(port: i32) -> Port {
        Port { port, protocol: "TCP".to_owned(), ..Port::default() }
    }

    fn subset(ready: &[&str], not_ready: &[&str], ports: &[i32]) -> Subset {
        let addresses = |ips: &[&str]| ips.iter().map(|ip| address(ip)).collect();
        Subset {
            addresses: addresses(ready),
            not_ready_addresses: addresses(not_ready),
            ports: ports.iter().map(|number| port(*number)).collect(),
        }
    }

    #[test]
    fn addresses_with_the_same_ports_are_one_subset() {
        let many =
            [subset(&["b"], &[], &[1]), subset(&["a"], &[], &[1]), subset(&["b"], &[], &[2])];
        assert_eq!(repack(&many), [subset(&["a", "b"], &[], &[1]), subset(&["b"], &[], &[2])]);
        let same = [subset(&["a"], &[], &[2]), subset(&["a"], &[], &[1])];
        assert_eq!(repack(&same), [subset(&["a"], &[], &[1, 2])]);
        assert_eq!(repack(&[subset(&["a"], &["b"], &[])]), [subset(&["a"], &["b"], &[])]);
    }

    #[test]
    fn an_address_that_is_not_ready_in_one_subset_is_not_ready() {
        let both = [subset(&["a"], &[], &[1]), subset(&[], &["a"], &[1])];
        assert_eq!(repack(&both), [subset(&[], &["a"], &[1])]);
    }

    #[test]
    fn addresses_that_are_not_ready_are_removed_first() {
        let ips = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
        let check = |ready: usize, not_ready: usize| {
            let (ready, not_ready) = (ips(ready), ips(not_ready));
            let texts = |ips: &[String]| ips.iter().map(|ip| address(ip)).collect();
            let mut subsets = [Subset {
                addresses: texts(&ready),
                not_ready_addresses: texts(&not_ready),
                ports: Vec::new(),
            }];
            let truncated = truncate(&mut subsets);
            (truncated, subsets[0].addresses.len(), subsets[0].not_ready_addresses.len())
        };
        assert_eq!(check(400, 600), (false, 400, 600));
        assert_eq!(check(400, 800), (true, 400, 600));
        assert_eq!(check(1200, 5), (true, 1000, 0));
    }
}
