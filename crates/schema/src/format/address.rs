//! Host names, IP and MAC addresses, e-mail addresses.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

/// As `netutils.ParseIPSloppy`: leading zeros are allowed, and so is an IPv6 address that ends in
/// an IPv4 address.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && is_ip(text)
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_ip(text: &str) -> bool {
    is_dotted_quad(text) || is_ipv6(text)
}

fn is_dotted_quad(text: &str) -> bool {
    let is_byte = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|number| number < 256)
    };
    text.split('.').count() == 4 && text.split('.').all(is_byte)
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = if is_dotted_quad(address) { 32 } else { 128 };
    is_ip(address)
        && !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

/// 6, 8 or 20 bytes in groups of two digits (with `:` or `-`) or of four (with `.`).
pub(super) fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, digits: usize| {
        let is_group =
            |group: &str| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit());
        let bytes = text.split(separator).count() * digits / 2;
        matches!(bytes, 6 | 8 | 20) && text.split(separator).all(is_group)
    };
    grouped(':', 2) || grouped('-', 2) || grouped('.', 4)
}

pub(super) fn is_hostname(text: &str) -> bool {
    // One label in which only the second character may be a dash, or several labels of which the
    // last has only letters.
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        const SIGN: &str = r"[a-zA-Z0-9\p{S}\p{L}]";
        let one = format!(r"{SIGN}(?:-?{SIGN}{{0,62}})?");
        let several = format!(
            r"(?:{SIGN}(?:[a-zA-Z0-9\-\p{{S}}\p{{L}}]{{0,61}}{SIGN})?\.)+[a-zA-Z\p{{L}}]{{2,63}}"
        );
        Regex::new(&format!(r"\A(?:{one}|{several})\z")).expect("the expression is well formed")
    });
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && PATTERN.is_match(text)
}

/// `local@domain` or `Name <local@domain>`, as `mail.ParseAddress` reads it.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match text.strip_suffix('>') {
        Some(rest) => match rest.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_quoted = local.len() > 1
        && local.starts_with('"')
        && local.ends_with('"')
        && !local[1..local.len() - 1].contains('"');
    let is_literal = domain
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
        .is_some_and(|it| is_ip(it) || it.strip_prefix("IPv6:").is_some_and(is_ipv6));
    (is_quoted || is_dot_atom(local)) && (is_literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    let is_atom =
        |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    text.split('.').all(|part| !part.is_empty() && part.chars().all(is_atom))
}
