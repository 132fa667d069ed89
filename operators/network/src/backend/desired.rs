//! [`Desired`]: the addresses of a Network.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::api::v2::NetworkSpec;

/// The addresses that no network can have, since hosts use them for themselves, for one link or for
/// groups. The CRD has the same list.
const RESERVED: [(&str, &str); 8] = [
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("255.255.255.255/32", "broadcast"),
    ("::/127", "unspecified and loopback"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
];

/// The reason why a spec declares no network, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSpec {
    /// The field of the spec.
    pub field: &'static str,
    why: String,
}

impl fmt::Display for InvalidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// See the [module documentation](self). The gateway is an address of a host in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Desired {
    cidr: IpNet,
    gateway: IpAddr,
}

impl Desired {
    /// Parses a spec. The CRD refuses most of the errors; those that remain
    /// are in objects that are older than its rules, and a gateway that is the broadcast address.
    ///
    /// ```
    /// use network_operator::{api::v2::NetworkSpec, backend::Desired};
    ///
    /// let spec = |cidr: &str, gateway: &str| NetworkSpec { cidr: cidr.into(), gateway: gateway.into() };
    /// assert!(Desired::parse(&spec("10.0.0.0/8", "10.0.0.1")).is_ok());
    /// let error = Desired::parse(&spec("10.0.0.0/8", "10.255.255.255")).unwrap_err();
    /// assert_eq!(error.field, "gateway");
    /// assert_eq!(error.to_string(), "the gateway 10.255.255.255 is not the address of a host in 10.0.0.0/8");
    /// ```
    pub fn parse(spec: &NetworkSpec) -> Result<Self, InvalidSpec> {
        let cidr = parse_cidr(&spec.cidr).map_err(|why| InvalidSpec { field: "cidr", why })?;
        let invalid = |why| InvalidSpec { field: "gateway", why };
        let gateway = spec.gateway.parse();
        let gateway =
            gateway.map_err(|_| invalid(format!("{:?} is no IP address", spec.gateway)))?;
        let desired = Self { cidr, gateway };
        if !cidr.contains(&gateway) || !desired.hosts().contains(&bits(gateway)) {
            let why = format!("the gateway {gateway} is not the address of a host in {cidr}");
            return Err(invalid(why));
        }
        Ok(desired)
    }

    /// The network.
    pub fn cidr(&self) -> IpNet {
        self.cidr
    }

    /// The gateway.
    pub fn gateway(&self) -> IpAddr {
        self.gateway
    }

    /// The gateway with the prefix of the network, as an interface has it.
    pub fn gateway_on_link(&self) -> IpNet {
        IpNet::new(self.gateway, self.cidr.prefix_len()).unwrap_or(self.cidr)
    }

    /// The addresses of hosts, without the gateway: one or two ranges, or none.
    pub fn pools(&self) -> Vec<(IpAddr, IpAddr)> {
        let (hosts, gateway) = (self.hosts(), bits(self.gateway));
        let below = gateway.checked_sub(1).map(|last| (*hosts.start(), last));
        let above = gateway.checked_add(1).map(|first| (first, *hosts.end()));
        let pools = [below, above].into_iter().flatten().filter(|(first, last)| first <= last);
        pools.map(|(first, last)| (self.address(first), self.address(last))).collect()
    }

    /// Without the address of the network and, in IPv4, the broadcast address, if there are others.
    fn hosts(&self) -> RangeInclusive<u128> {
        let (first, last) = (bits(self.cidr.network()), bits(self.cidr.broadcast()));
        match (self.cidr, last - first) {
            (_, 0 | 1) => first..=last,
            (IpNet::V4(_), _) => first + 1..=last - 1,
            (IpNet::V6(_), _) => first + 1..=last,
        }
    }

    fn address(&self, bits: u128) -> IpAddr {
        match self.gateway {
            IpAddr::V4(_) => IpAddr::V4(u32::try_from(bits).unwrap_or(u32::MAX).into()),
            IpAddr::V6(_) => IpAddr::V6(bits.into()),
        }
    }
}

fn parse_cidr(text: &str) -> Result<IpNet, String> {
    let cidr: IpNet = text.parse().map_err(|_| format!("{text:?} is no CIDR"))?;
    let network = cidr.trunc();
    if cidr != network {
        return Err(format!("{cidr} has bits after its prefix; the network is {network}"));
    }
    for (reserved, use_) in RESERVED {
        let block: IpNet = reserved.parse().expect("a CIDR");
        if block.contains(&cidr) || cidr.contains(&block) {
            return Err(format!("{cidr} overlaps the {use_} addresses {reserved}"));
        }
    }
    Ok(cidr)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(cidr: &str, gateway: &str) -> Result<Desired, InvalidSpec> {
        Desired::parse(&NetworkSpec { cidr: cidr.to_owned(), gateway: gateway.to_owned() })
    }

    fn check_pools(cidr: &str, gateway: &str, expected: &[&str]) {
        let pools = parse(cidr, gateway).unwrap().pools();
        let pools: Vec<_> = pools.iter().map(|(first, last)| format!("{first} {last}")).collect();
        assert_eq!(pools, expected, "{cidr} {gateway}");
    }

    #[test]
    fn the_pools_are_all_hosts_but_the_gateway() {
        check_pools("10.0.0.0/24", "10.0.0.1", &["10.0.0.2 10.0.0.254"]);
        check_pools("10.0.0.0/24", "10.0.0.9", &["10.0.0.1 10.0.0.8", "10.0.0.10 10.0.0.254"]);
        check_pools("10.0.0.0/24", "10.0.0.254", &["10.0.0.1 10.0.0.253"]);
        check_pools("10.0.0.0/31", "10.0.0.0", &["10.0.0.1 10.0.0.1"]);
        check_pools("10.0.0.1/32", "10.0.0.1", &[]);
        check_pools("fd00::/126", "fd00::2", &["fd00::1 fd00::1", "fd00::3 fd00::3"]);
    }

    #[test]
    fn a_gateway_that_is_no_host_of_the_network_is_refused() {
        assert!(parse("10.0.0.0/24", "10.0.0.0").is_err());
        assert!(parse("10.0.0.0/24", "10.0.0.255").is_err());
        assert!(parse("10.0.0.0/24", "10.0.1.1").is_err());
        assert!(parse("10.0.0.0/24", "fd00::1").is_err());
        assert!(parse("10.0.0.1/24", "10.0.0.1").is_err());
    }

    #[test]
    fn a_network_of_addresses_with_a_special_meaning_is_refused() {
        for (cidr, gateway, reserved) in [
            ("0.0.0.0/0", "10.0.0.1", "unspecified addresses 0.0.0.0/8"),
            ("0.1.0.0/16", "0.1.0.1", "unspecified addresses 0.0.0.0/8"),
            ("127.0.0.0/8", "127.0.0.1", "loopback addresses 127.0.0.0/8"),
            ("64.0.0.0/2", "64.0.0.1", "loopback addresses 127.0.0.0/8"),
            ("169.254.169.254/32", "169.254.169.254", "link-local addresses 169.254.0.0/16"),
            ("224.0.0.0/4", "224.0.0.1", "multicast addresses 224.0.0.0/4"),
            ("255.255.255.254/31", "255.255.255.254", "broadcast addresses 255.255.255.255/32"),
            ("::/0", "fd00::1", "unspecified and loopback addresses ::/127"),
            ("::1/128", "::1", "unspecified and loopback addresses ::/127"),
            ("fe80::/64", "fe80::1", "link-local addresses fe80::/10"),
            ("ff02::/16", "ff02::5", "multicast addresses ff00::/8"),
        ] {
            let error = parse(cidr, gateway).unwrap_err();
            let expected = ("cidr", format!("{cidr} overlaps the {reserved}"));
            assert_eq!((error.field, error.to_string()), expected);
        }
        for (cidr, gateway) in [("1.0.0.0/8", "1.0.0.1"), ("8000::/2", "8000::1")] {
            assert!(parse(cidr, gateway).is_ok(), "{cidr}");
        }
    }
}
