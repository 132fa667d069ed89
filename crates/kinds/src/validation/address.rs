//! Validation of IP addresses and CIDR ranges. Some stored objects have forms that are no longer
//! valid or that cause warnings, since older versions of Kubernetes accepted them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use machinery::field_path::quote;
use machinery::{ErrorList, Path};

/// Parses an address as upstream's `ParseIPSloppy`, which ignores the leading zeros of an octet.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical());
    }
    let octets: Option<Vec<u8>> = text
        .split('.')
        .map(|part| part.bytes().all(|digit| digit.is_ascii_digit()).then_some(part)?.parse().ok())
        .collect();
    let octets: [u8; 4] = octets?.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// Whether a text is an IPv6 address; an IPv4-mapped one is not.
pub(crate) fn is_ipv6(text: &str) -> bool {
    parse(text).is_some_and(|address| address.is_ipv6())
}

/// Whether there are addresses of both IP families.
pub(crate) fn is_dual_stack(addresses: &[&str]) -> bool {
    addresses.iter().any(|address| is_ipv6(address))
        && addresses.iter().any(|address| parse(address).is_some_and(|it| it.is_ipv4()))
}

/// The addresses or ranges that the stored object has in a field; empty for a new object. They are
/// not validated again.
pub(crate) type Stored<'a> = HashSet<&'a str>;

/// Must be an address, unless the stored object has it already.
pub(crate) fn ip(errors: &mut ErrorList, path: &Path<'_>, value: &str, stored: &Stored<'_>) {
    if stored.contains(value) {
        return;
    }
    if parse(value).is_none() {
        let message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid(path, value, message);
        return;
    }
    match value.parse::<IpAddr>() {
        Err(_) => errors.invalid(path, value, "must not have leading 0s"),
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            errors.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
        }
        Ok(_) => {}
    }
}

/// Must be an address to which traffic may be sent.
pub(crate) fn endpoint_ip(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    let Some(address) = parse(value) else {
        return errors.invalid(path, value, "must be a valid IP address");
    };
    if address.is_unspecified() {
        errors.invalid(path, value, &format!("may not be unspecified ({value})"));
    }
    if address.is_loopback() {
        let message = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.invalid(path, value, message);
    }
    if is_link_local(address) {
        let message = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.invalid(path, value, message);
    }
    if is_link_local_multicast(address) {
        let message = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.invalid(path, value, message);
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

/// A CIDR range: the address before the slash, and the length of the prefix in bits.
#[derive(Debug, Clone, Copy)]
struct Range {
    address: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = parse(address)?;
        let digits = !bits.is_empty() && bits.bytes().all(|digit| digit.is_ascii_digit());
        let bits: u32 = digits.then_some(bits)?.parse().ok()?;
        (bits <= Self::width(address)).then_some(Self { address, bits })
    }

    fn width(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// The first address of the range, without the bits beyond the prefix.
    fn first(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
            }
        }
    }

    fn canonical(self) -> String {
        format!("{}/{}", self.first(), self.bits)
    }
}

/// Whether the address or the prefix length has leading zeros.
fn has_leading_zeros(value: &str) -> bool {
    let (address, bits) = value.split_once('/').unwrap_or((value, ""));
    address.parse::<IpAddr>().is_err() || (bits.len() > 1 && bits.starts_with('0'))
}

/// Whether an address or a range is IPv4-mapped IPv6.
fn is_mapped(value: &str) -> bool {
    let address = value.split('/').next().unwrap_or_default();
    address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_ipv4_mapped().is_some())
}

/// Must be a CIDR range, unless the stored object has it already.
pub(crate) fn cidr(errors: &mut ErrorList, path: &Path<'_>, value: &str, stored: &Stored<'_>) {
    if stored.contains(value) {
        return;
    }
    let message = match Range::parse(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(_) if has_leading_zeros(value) => "must not have leading 0s in IP or prefix length",
        Some(_) if is_mapped(value) => "must not have an IPv4-mapped IPv6 address",
        Some(range) if range.address != range.first() => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return,
    };
    errors.invalid(path, value, message);
}

/// The errors about an address that must be in canonical form.
pub(crate) fn canonical_ip(value: &str) -> Vec<String> {
    let mut errors = ErrorList::new();
    ip(&mut errors, &Path::EMPTY, value, &Stored::new());
    let found: Vec<String> = errors.into_inner().into_iter().map(|error| error.detail).collect();
    match parse(value).map(|address| address.to_string()) {
        Some(canonical) if found.is_empty() && canonical != value => {
            vec![format!("must be in canonical form ({})", quote(&canonical))]
        }
        _ => found,
    }
}

/// Must be a CIDR range in canonical form.
pub(crate) fn canonical_cidr(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    let before = errors.len();
    cidr(errors, path, value, &Stored::new());
    let canonical = Range::parse(value).map(Range::canonical);
    if let Some(canonical) = canonical.filter(|it| it != value && errors.len() == before) {
        errors.invalid(path, value, &format!("must be in canonical form ({})", quote(&canonical)));
    }
}

/// Whether a range is inside of another and smaller; None if one of them is malformed.
pub(crate) fn is_strictly_within(inner: &str, outer: &str) -> Option<bool> {
    let (inner, outer) = (Range::parse(inner)?, Range::parse(outer)?);
    let begins_within = Range { address: inner.first(), bits: outer.bits }.first() == outer.first();
    let is_same_family = inner.address.is_ipv4() == outer.address.is_ipv4();
    Some(is_same_family && begins_within && inner.bits > outer.bits)
}

/// Whether there are ranges of both IP families.
pub(crate) fn are_dual_stack_ranges(ranges: &[&str]) -> bool {
    let parsed: Vec<Range> = ranges.iter().filter_map(|range| Range::parse(range)).collect();
    parsed.iter().any(|range| range.address.is_ipv4())
        && parsed.iter().any(|range| range.address.is_ipv6())
}

/// The warning about an address in a non-canonical form, if it is in one.
pub(crate) fn ip_warning(path: &Path<'_>, value: &str) -> Option<String> {
    let address = parse(value)?;
    if value.parse::<IpAddr>().is_err() || is_mapped(value) {
        let (value, better) = (quote(value), quote(&address.to_string()));
        return Some(format!("{path}: non-standard IP address {value} is invalid: use {better}"));
    }
    let canonical = address.to_string();
    (address.is_ipv6() && canonical != value).then(|| {
        let (value, canonical) = (quote(value), quote(&canonical));
        format!("{path}: IPv6 address {value} should be in RFC 5952 canonical format ({canonical})")
    })
}

/// The warnings about a range in a non-canonical form.
pub(crate) fn cidr_warnings(path: &Path<'_>, value: &str) -> Vec<String> {
    let Some(range) = Range::parse(value) else { return Vec::new() };
    let mut warnings = Vec::new();
    let (shown, canonical) = (quote(value), quote(&range.canonical()));
    if range.address != range.first() {
        let single = quote(&format!("{}/{}", range.address, Range::width(range.address)));
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {canonical} or {single}?)"
        ));
    }
    if has_leading_zeros(value) || is_mapped(value) {
        warnings
            .push(format!("{path}: non-standard CIDR value {shown} is invalid: use {canonical}"));
    }
    if warnings.is_empty() && range.address.is_ipv6() && range.canonical() != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&mut ErrorList, &Path<'_>, &str, &Stored<'_>), value: &str, expected: &str) {
        let mut errors = ErrorList::new();
        rule(&mut errors, &Path::root("f"), value, &Stored::new());
        let found: Vec<String> = errors.iter().map(|error| error.detail.clone()).collect();
        assert_eq!(found.join("; "), expected, "{value}");
    }

    #[test]
    fn malformed_addresses_are_refused() {
        check(ip, "10.0.0.1", "");
        check(ip, "2001:db8::1", "");
        check(ip, "010.0.0.1", "must not have leading 0s");
        check(ip, "::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address");
        check(ip, "x", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        check(ip, "1.2.3.256", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }

    #[test]
    fn malformed_ranges_are_refused() {
        check(cidr, "10.1.0.0/24", "");
        check(cidr, "::/0", "");
        check(cidr, "10.1.0.5/24", "must not have bits set beyond the prefix length");
        check(cidr, "10.1.0.0/024", "must not have leading 0s in IP or prefix length");
        let invalid = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        check(cidr, "10.1.0.0/33", invalid);
        check(cidr, "10.1.0.0", invalid);
    }

    #[test]
    fn stored_values_are_not_validated_again() {
        let mut errors = ErrorList::new();
        ip(&mut errors, &Path::root("f"), "010.0.0.1", &Stored::from(["010.0.0.1"]));
        assert!(errors.is_empty());
    }

    #[test]
    fn non_canonical_forms_cause_warnings() {
        let path = Path::root("f");
        assert_eq!(ip_warning(&path, "1.2.3.4"), None);
        assert_eq!(
            ip_warning(&path, "2001:DB8::1").as_deref(),
            Some(
                r#"f: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")"#
            )
        );
    }
}
