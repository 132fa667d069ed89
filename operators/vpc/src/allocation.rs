//! [`allocate`]: which addresses the subnets of a block have.
//!
//! The rule:
//!
//! 1. A block with `n` new subnets is split into `2^k >= n` equal parts, and the subnets are the first
//!    `n` of them.
//! 2. A subnet that exists and is in the block keeps its addresses, also when there are fewer subnets.
//! 3. A new subnet is the first free part, of the size that rule 1 gives for the present number.
//! 4. If no part of this size is free, the largest subnet, and of several the last, is narrowed to its
//!    lower half, until one is. It keeps its first address and its gateway.
//! 5. A subnet that is larger than the block, but begins in it, is narrowed, too. Any other that is not
//!    in the block is replaced by a new one.
//!
//! ```text
//! n = 2   |       shop-0        |       shop-1        |   10.0.0.0/17, 10.0.128.0/17
//! n = 3   |       shop-0        |  shop-1  |  shop-2  |   shop-1 is narrowed to 10.0.128.0/18
//! n = 4   |  shop-0  |  shop-3  |  shop-1  |  shop-2  |   shop-0 is narrowed to 10.0.0.0/18
//! n = 2   |  shop-0  |          |  shop-1  |          |
//! ```
//!
//! Rule 4 always finds a subnet: there are `2^k` parts, and each of the fewer than `n` other subnets
//! takes one, or can be narrowed until it does.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Cidr;

/// The longest prefix of a subnet, with two addresses for hosts.
pub const MAX_PREFIX: u8 = 30;

/// A block that has fewer addresses than the subnets need.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{block} is too small for {count} subnets, each of at least 4 addresses")]
pub struct BlockTooSmall {
    block: Cidr,
    count: usize,
}

/// The addresses of `count` subnets of `block`, by their number. `present` are those that exist.
///
/// ```
/// use std::collections::BTreeMap;
/// use vpc_operator::allocation::allocate;
///
/// let subnets = allocate("10.0.0.0/16".parse()?, 3, &BTreeMap::new())?;
/// let texts: Vec<_> = subnets.iter().map(|subnet| subnet.to_string()).collect();
/// assert_eq!(texts, ["10.0.0.0/18", "10.0.64.0/18", "10.0.128.0/18"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn allocate(
    block: Cidr,
    count: usize,
    present: &BTreeMap<usize, Cidr>,
) -> Result<Vec<Cidr>, BlockTooSmall> {
    let parts = count.checked_next_power_of_two();
    let prefix = parts.map(|parts| u32::from(block.prefix()) + parts.trailing_zeros());
    let prefix = prefix.and_then(|prefix| u8::try_from(prefix).ok());
    let prefix = prefix.filter(|prefix| *prefix <= MAX_PREFIX);
    let prefix = prefix.ok_or(BlockTooSmall { block, count })?;
    let mut subnets: BTreeMap<usize, Cidr> = BTreeMap::new();
    for (number, subnet) in present.range(..count) {
        let Some(kept) = fit(*subnet, block) else { continue };
        if !overlaps_any(kept, &subnets) {
            subnets.insert(*number, kept);
        }
    }
    for number in 0..count {
        if !subnets.contains_key(&number) {
            let free = take_free_part(block, prefix, &mut subnets);
            subnets.insert(number, free);
        }
    }
    Ok(subnets.into_values().collect())
}

/// The subnet, narrowed until it is in `block`; `None` if it does not begin there.
fn fit(mut subnet: Cidr, block: Cidr) -> Option<Cidr> {
    while subnet.prefix() < block.prefix() {
        subnet = subnet.lower_half();
    }
    (block.contains(subnet) && subnet.prefix() <= MAX_PREFIX).then_some(subnet)
}

/// The first part of `block` with this prefix that is in no subnet; subnets are narrowed until there is
/// one.
fn take_free_part(block: Cidr, prefix: u8, subnets: &mut BTreeMap<usize, Cidr>) -> Cidr {
    loop {
        if let Some(free) = block.parts(prefix).find(|part| !overlaps_any(*part, subnets)) {
            return free;
        }
        let largest =
            subnets.values_mut().min_by_key(|subnet| (subnet.prefix(), Reverse(**subnet)));
        let largest = largest.expect("a block without a free part has subnets");
        *largest = largest.lower_half();
    }
}

fn overlaps_any(subnet: Cidr, others: &BTreeMap<usize, Cidr>) -> bool {
    others.values().any(|other| other.overlaps(subnet))
}

#[cfg(test)]
mod tests;
