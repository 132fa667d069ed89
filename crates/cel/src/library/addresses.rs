//! Kubernetes' IP and CIDR libraries: `ip(x)`, `cidr(x)` and their methods.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::go_netip::parse_addr;
use crate::value::{Opaque, Value};

/// An address.
#[derive(Debug, PartialEq, Eq)]
struct Ip(IpAddr);

/// A network: any address in it, and the length of the prefix.
#[derive(Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Opaque for Ip {
    fn type_name(&self) -> &'static str {
        "net.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque for Cidr {
    fn type_name(&self) -> &'static str {
        "net.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn size(&self) -> u64 {
        u64::from(self.bits.div_ceil(8))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Cidr {
    fn masked(&self) -> Self {
        Self { address: masked(self.address, self.bits), bits: self.bits }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && masked(address, self.bits) == masked(self.address, self.bits)
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}

pub(super) fn declare(library: &mut Library) {
    library.add_type("net.IP");
    library.add_type("net.CIDR");
    library.add("ip", "string_to_ip", "(string) -> net.IP", |args| {
        with_text(args, |text| parse_ip(text).map(|ip| Value::opaque(Ip(ip))))
    });
    library.add("isIP", "is_ip", "(string) -> bool", |args| {
        with_text(args, |text| Ok(Value::Bool(parse_ip(text).is_ok())))
    });
    library.add("ip.isCanonical", "ip_is_canonical", "(string) -> bool", |args| {
        with_text(args, |text| parse_ip(text).map(|ip| Value::Bool(ip.to_string() == text)))
    });
    library.add("string", "ip_to_string", "(net.IP) -> string", |args| {
        with_ip(args, |ip| Value::string(ip.to_string()))
    });
    library.add("family", "ip_family", "net.IP.() -> int", |args| {
        with_ip(args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
    });
    let tests: [(&'static str, &str, Plain); 5] = [
        ("isUnspecified", "ip_is_unspecified", |args| test_ip(args, |ip| ip.is_unspecified())),
        ("isLoopback", "ip_is_loopback", |args| test_ip(args, |ip| ip.is_loopback())),
        ("isLinkLocalMulticast", "ip_is_link_local_multicast", |args| {
            test_ip(args, is_link_local_multicast)
        }),
        ("isLinkLocalUnicast", "ip_is_link_local_unicast", |args| {
            test_ip(args, is_link_local_unicast)
        }),
        ("isGlobalUnicast", "ip_is_global_unicast", |args| test_ip(args, is_global_unicast)),
    ];
    for (function, id, run) in tests {
        library.add(function, id, "net.IP.() -> bool", run);
    }
    declare_networks(library);
}

fn declare_networks(library: &mut Library) {
    library.add("cidr", "string_to_cidr", "(string) -> net.CIDR", |args| {
        with_text(args, |text| match parse_cidr(text) {
            Ok(cidr) => Ok(Value::opaque(cidr)),
            Err(error) => {
                Err(format!("network address parse error during conversion from string: {error}"))
            }
        })
    });
    library.add("isCIDR", "is_cidr", "(string) -> bool", |args| {
        with_text(args, |text| Ok(Value::Bool(parse_cidr(text).is_ok())))
    });
    library.add("string", "cidr_to_string", "(net.CIDR) -> string", |args| {
        with_cidr(args, |cidr| Value::string(format!("{}/{}", cidr.address, cidr.bits)))
    });
    library.add("ip", "cidr_ip", "net.CIDR.() -> net.IP", |args| {
        with_cidr(args, |cidr| Value::opaque(Ip(cidr.address)))
    });
    library.add("prefixLength", "cidr_prefix_length", "net.CIDR.() -> int", |args| {
        with_cidr(args, |cidr| Value::Int(i64::from(cidr.bits)))
    });
    library.add("masked", "cidr_masked", "net.CIDR.() -> net.CIDR", |args| {
        with_cidr(args, |cidr| Value::opaque(cidr.masked()))
    });
    library.add("containsIP", "cidr_contains_ip_string", "net.CIDR.(string) -> bool", contains_ip);
    library.add("containsIP", "cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool", contains_ip);
    let text = "net.CIDR.(string) -> bool";
    library.add("containsCIDR", "cidr_contains_cidr_string", text, contains_cidr);
    library.add("containsCIDR", "cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool", contains_cidr);
}

fn with_text<'a>(
    args: &mut [Value<'a>],
    map: fn(&str) -> Result<Value<'a>, String>,
) -> EvalResult<'a> {
    match args.first() {
        Some(Value::String(text)) => Ok(map(text)?),
        _ => no_such_overload(),
    }
}

fn with_ip<'a>(args: &mut [Value<'a>], map: fn(IpAddr) -> Value<'a>) -> EvalResult<'a> {
    match args[0].downcast::<Ip>() {
        Some(ip) => Ok(map(ip.0)),
        None => no_such_overload(),
    }
}

fn test_ip<'a>(args: &mut [Value<'a>], test: fn(IpAddr) -> bool) -> EvalResult<'a> {
    match args[0].downcast::<Ip>() {
        Some(ip) => Ok(Value::Bool(test(ip.0))),
        None => no_such_overload(),
    }
}

fn with_cidr<'a>(args: &mut [Value<'a>], map: fn(&Cidr) -> Value<'a>) -> EvalResult<'a> {
    match args[0].downcast::<Cidr>() {
        Some(cidr) => Ok(map(cidr)),
        None => no_such_overload(),
    }
}

fn contains_ip<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [own, other] = args else {
        return no_such_overload();
    };
    let ip = match (other.downcast::<Ip>(), other.as_str()) {
        (Some(ip), _) => ip.0,
        (None, Some(text)) => parse_ip(text)?,
        _ => return no_such_overload(),
    };
    match own.downcast::<Cidr>() {
        Some(cidr) => Ok(Value::Bool(cidr.contains(ip))),
        None => no_such_overload(),
    }
}

fn contains_cidr<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [own, other] = args else {
        return no_such_overload();
    };
    let (address, bits) = match (other.downcast::<Cidr>(), other.as_str()) {
        (Some(cidr), _) => (cidr.address, cidr.bits),
        (None, Some(text)) => {
            let cidr = parse_cidr(text)?;
            (cidr.address, cidr.bits)
        }
        _ => return no_such_overload(),
    };
    match own.downcast::<Cidr>() {
        Some(cidr) => Ok(Value::Bool(cidr.bits <= bits && cidr.contains(address))),
        None => no_such_overload(),
    }
}

/// Parses an address; zones and IPv4-mapped IPv6 addresses are refused.
fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let address = parse_addr(text.as_bytes()).map_err(|why| {
        format!("IP Address {text:?} parse error during conversion from string: {why}")
    })?;
    if !address.zone.is_empty() {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    if is_mapped(address.ip) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(address.ip)
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let fail = |reason: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {reason}"
        )
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(fail("no '/'"));
    };
    let parsed = parse_addr(address.as_bytes()).map_err(|why| fail(&why))?;
    if !parsed.zone.is_empty() {
        return Err(fail("IPv6 zones cannot be present in a prefix"));
    }
    let address = parsed.ip;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || bits.len() > 1 && bits.starts_with('0') {
        return Err(fail(&format!("bad bits after slash: {bits:?}")));
    }
    let max_bits = if address.is_ipv4() { 32 } else { 128 };
    let Some(bits) = bits.parse::<u8>().ok().filter(|bits| *bits <= max_bits) else {
        return Err(fail("prefix length out of range"));
    };
    if is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    Ok(Cidr { address, bits })
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !is_link_local_unicast(address)
}
