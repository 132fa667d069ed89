//! [`Cidr`]: a block of IPv4 addresses, such as `10.0.0.0/16`.
//!
//! ```
//! use vpc_operator::Cidr;
//!
//! let block: Cidr = "10.0.0.0/16".parse()?;
//! let half = block.lower_half();
//! assert_eq!(half.to_string(), "10.0.0.0/17");
//! assert!(block.contains(half));
//! assert_eq!(half.gateway().to_string(), "10.0.0.1");
//! assert!("10.0.0.1/16".parse::<Cidr>().is_err());
//! # Ok::<(), vpc_operator::cidr::InvalidCidr>(())
//! ```

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;

/// See the [module documentation](self). The bits after the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr(Ipv4Net);

/// A text that is not a block of IPv4 addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 block such as 10.0.0.0/16")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The number of leading bits that all addresses share.
    pub fn prefix(self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether all addresses of `other` are in this block.
    pub fn contains(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether an address is in both blocks.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The block with the same first address and half as many addresses. A block of one address is
    /// unchanged.
    #[must_use]
    pub fn lower_half(self) -> Self {
        Ipv4Net::new(self.0.addr(), self.prefix() + 1).map_or(self, Self)
    }

    /// The parts with this prefix, in the order of addresses. There are none if the block is smaller.
    pub fn parts(self, prefix: u8) -> impl Iterator<Item = Self> {
        self.0.subnets(prefix).into_iter().flatten().map(Self)
    }

    /// The first address for a host.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.0.addr()) | 1)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let parsed: Option<Ipv4Net> = text.parse().ok();
        // Only one text for each block, so that texts can be compared.
        let parsed = parsed.filter(|net| *net == net.trunc() && net.to_string() == text);
        parsed.map(Self).ok_or_else(|| InvalidCidr(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_block_is_parsed_from_its_only_text() {
        for text in ["0.0.0.0/0", "10.0.0.0/8", "192.168.128.0/17", "1.2.3.4/32"] {
            assert_eq!(cidr(text).to_string(), text);
        }
        let bad = ["", "10.0.0.0", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/08", "::/0", "a/8", "/8"];
        for text in bad {
            let expected = format!("{text:?} is not an IPv4 block such as 10.0.0.0/16");
            assert_eq!(text.parse::<Cidr>().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn blocks_contain_their_parts() {
        let block = cidr("10.0.0.0/8");
        assert!(block.contains(block) && block.contains(cidr("10.255.255.255/32")));
        assert!(!block.contains(cidr("11.0.0.0/8")) && !block.contains(cidr("0.0.0.0/0")));
        assert!(block.overlaps(cidr("0.0.0.0/0")) && !block.overlaps(cidr("11.0.0.0/9")));
        assert!(cidr("0.0.0.0/0").contains(cidr("255.0.0.0/8")));
        let parts: Vec<_> = cidr("10.0.0.0/30").parts(31).map(|part| part.to_string()).collect();
        assert_eq!(parts, ["10.0.0.0/31", "10.0.0.2/31"]);
        assert_eq!(cidr("0.0.0.0/0").parts(1).last(), Some(cidr("128.0.0.0/1")));
    }

    #[test]
    fn blocks_at_the_ends_of_the_address_space_have_all_parts() {
        for text in ["0.0.0.0/0", "255.255.255.252/30", "255.255.255.255/32", "0.0.0.0/32"] {
            let block = cidr(text);
            assert_eq!(block.parts(block.prefix()).collect::<Vec<_>>(), [block]);
        }
        let parts: Vec<_> =
            cidr("255.255.255.252/30").parts(32).map(|part| part.to_string()).collect();
        let last = ["252", "253", "254", "255"].map(|end| format!("255.255.255.{end}/32"));
        assert_eq!(parts, last);
        let none = [cidr("10.0.0.0/24").parts(23).count(), cidr("1.2.3.4/32").parts(33).count()];
        assert_eq!(none, [0, 0]);
        assert_eq!(cidr("0.0.0.0/0").lower_half(), cidr("0.0.0.0/1"));
        assert_eq!(cidr("1.2.3.4/31").lower_half(), cidr("1.2.3.4/32"));
        assert_eq!(cidr("1.2.3.5/32").lower_half(), cidr("1.2.3.5/32"));
    }
}
