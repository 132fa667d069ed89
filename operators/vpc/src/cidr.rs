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

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    /// The first address. The bits after the prefix are zero.
    base: u32,
    /// The length of the prefix, at most 32.
    prefix: u8,
}

/// A text that is not a block of IPv4 addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 block such as 10.0.0.0/16")]
pub struct InvalidCidr(String);

impl Cidr {
    /// The number of leading bits that all addresses share.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The number of addresses.
    fn size(self) -> u64 {
        1 << (32 - self.prefix)
    }

    /// Whether all addresses of `other` are in this block.
    pub fn contains(self, other: Self) -> bool {
        self.prefix <= other.prefix && u64::from(self.base ^ other.base) < self.size()
    }

    /// Whether an address is in both blocks.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// The block with the same first address and half as many addresses. It has at least two.
    #[must_use]
    pub fn lower_half(self) -> Self {
        Self { prefix: self.prefix + 1, ..self }
    }

    /// The parts with this prefix, which is at least that of the block, in the order of addresses.
    pub fn parts(self, prefix: u8) -> impl Iterator<Item = Self> {
        let (first, end) = (u64::from(self.base), u64::from(self.base) + self.size());
        let bases = (first..end).step_by(1 << (32 - prefix));
        bases.filter_map(move |base| Some(Self { base: u32::try_from(base).ok()?, prefix }))
    }

    /// The first address for a host.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base | 1)
    }
}

impl FromStr for Cidr {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let base = u32::from(address.parse::<Ipv4Addr>().ok()?);
            let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
            Some(Self { base, prefix })
        });
        // Only one text for each block, so that texts can be compared.
        let parsed = parsed.filter(|cidr| {
            u64::from(cidr.base).is_multiple_of(cidr.size()) && cidr.to_string() == text
        });
        parsed.ok_or_else(|| InvalidCidr(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
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
}
