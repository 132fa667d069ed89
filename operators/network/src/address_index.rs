//! [`AddressIndex`]: finds the Networks that have some addresses of a block, by an index of the cache.
//! Neither a lookup nor a lookup in vain reads or decodes the other Networks.
//!
//! Two blocks overlap if one contains the other. The index has each Network under its own block, and
//! under the larger blocks whose prefixes are multiples of [`STRIDE`]:
//!
//! ```text
//! 10.1.2.0/23 is at:  =10.1.2.0/23   <10.1.0.0/20 <10.1.0.0/16 <10.0.0.0/12 <10.0.0.0/8 <0.0.0.0/4 …
//! 10.0.0.0/7 reads:   =10.0.0.0/7    those that contain it: =10.0.0.0/6 =8.0.0.0/5 …
//!                                    those that it contains: =10.0.0.0/8 <10.0.0.0/8 and the same for 11
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;

use runtime::Request;
use runtime::informer::{Indexer, Item};

const INDEX: &str = "cidr";

/// The index has every fourth of the larger blocks, since all of them would be 128 for a small block of
/// IPv6. A lookup then reads some more blocks.
const STRIDE: u8 = 4;

/// See the [module documentation](self).
pub(crate) struct AddressIndex(Arc<Indexer>);

/// The part of a Network that the index reads.
#[derive(Deserialize)]
struct Network {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    cidr: String,
}

impl AddressIndex {
    /// Adds the index to the cache of the Networks.
    pub(crate) fn new(networks: &Arc<Indexer>) -> Self {
        networks.add_typed_index(INDEX, |network: &Network| {
            network.spec.cidr.parse().map(values).unwrap_or_default()
        });
        Self(Arc::clone(networks))
    }

    /// The Networks other than `network` that have addresses of `cidr`, in the order of their keys.
    pub(crate) fn overlaps(&self, network: &Request, cidr: IpNet) -> Vec<Item> {
        let found = lookups(cidr).into_iter().flat_map(|value| self.0.by_index(INDEX, &value));
        let mut found: Vec<_> = found.flatten().filter(|other| other.key() != network).collect();
        found.sort_by(|a, b| a.key().cmp(b.key()));
        found
    }
}

/// The addresses of a Network that the index has found.
pub(crate) fn cidr_of(network: &Item) -> Option<IpNet> {
    network.decode::<Network>().ok()?.spec.cidr.parse().ok()
}

fn itself(block: IpNet) -> String {
    format!("={block}")
}

fn below(block: IpNet) -> String {
    format!("<{block}")
}

/// The block of this prefix that contains the beginning of `block`.
fn larger(block: IpNet, prefix: u8) -> IpNet {
    IpNet::new(block.addr(), prefix).unwrap_or(block).trunc()
}

/// The values of a Network in the index.
fn values(cidr: IpNet) -> Vec<String> {
    let prefixes = (0..cidr.prefix_len()).step_by(STRIDE.into());
    let above = prefixes.map(|prefix| below(larger(cidr, prefix)));
    above.chain([itself(cidr.trunc())]).collect()
}

/// The values of all Networks with addresses of `cidr`.
fn lookups(cidr: IpNet) -> BTreeSet<String> {
    let prefix = cidr.prefix_len();
    let indexed = prefix.next_multiple_of(STRIDE);
    let same_or_larger = (0..=prefix).map(|prefix| itself(larger(cidr, prefix)));
    let smaller = (prefix..=indexed).flat_map(|prefix| cidr.subnets(prefix)).flatten().map(itself);
    let far_smaller = cidr.subnets(indexed).into_iter().flatten().map(below);
    same_or_larger.chain(smaller).chain(far_smaller).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use runtime::keel::Entropy;

    /// A Network whose annotations are not those of an object: it cannot be decoded as a whole.
    fn insert(indexer: &Indexer, name: &str, cidr: IpNet) {
        let metadata = json!({"namespace": "a", "name": name, "annotations": 7});
        let network = json!({"metadata": metadata, "spec": {"cidr": cidr.to_string()}});
        indexer.insert(Item::parse(network.to_string()).unwrap());
    }

    /// A random block; many of them contain others.
    fn block(entropy: &Entropy, is_v6: bool) -> IpNet {
        let octets = [10, entropy.below(3), entropy.below(3), entropy.below(256)];
        let [a, b, c, d] = octets.map(|octet| u8::try_from(octet).unwrap());
        let (address, most) = if is_v6 {
            (format!("fd{a:02x}:{b:02x}{c:02x}::{d:x}"), 128)
        } else {
            (format!("{a}.{b}.{c}.{d}"), 32)
        };
        let prefix = u8::try_from(1 + entropy.below(most)).unwrap();
        IpNet::new(address.parse().unwrap(), prefix).unwrap().trunc()
    }

    #[test]
    fn the_networks_that_overlap_a_block_are_found_without_decoding_whole_networks() {
        let entropy = Entropy::seeded(7);
        for is_v6 in [false, true] {
            let indexer = Arc::new(Indexer::new());
            let index = AddressIndex::new(&indexer);
            let blocks: Vec<_> = (0..200).map(|_| block(&entropy, is_v6)).collect();
            for (number, block) in blocks.iter().enumerate() {
                insert(&indexer, &format!("n{number:03}"), *block);
            }
            for _ in 0..200 {
                let block = block(&entropy, is_v6);
                let found = index.overlaps(&Request::new("a", "n007"), block);
                let found: Vec<_> = found.iter().map(|item| item.name().to_owned()).collect();
                let expected = blocks.iter().enumerate().filter(|(number, other)| {
                    *number != 7 && (other.contains(&block) || block.contains(*other))
                });
                let expected: Vec<_> =
                    expected.map(|(number, _)| format!("n{number:03}")).collect();
                assert_eq!(found, expected, "{block}");
            }
        }
    }

    #[test]
    fn a_changed_network_is_found_at_its_new_addresses_only() {
        let indexer = Arc::new(Indexer::new());
        let index = AddressIndex::new(&indexer);
        let (old, new) = ("10.0.0.0/24".parse().unwrap(), "10.1.0.0/22".parse().unwrap());
        insert(&indexer, "n", old);
        insert(&indexer, "n", new);
        let nobody = Request::new("a", "b");
        assert!(index.overlaps(&nobody, old).is_empty());
        let found = index.overlaps(&nobody, new);
        assert_eq!((found.len(), cidr_of(&found[0])), (1, Some(new)));
    }
}
