//! Parses IP addresses as Go's `netip.ParseAddr` does, with Go's errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strconv::quote_bytes;

/// An address and its zone, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addr {
    pub(crate) ip: IpAddr,
    pub(crate) zone: Vec<u8>,
}

/// The message, and the text that follows it in quotes, if any.
struct AddrError<'a> {
    message: &'static str,
    at: &'a [u8],
}

type Parsed<'a, T> = Result<T, AddrError<'a>>;

fn error<'a, T>(message: &'static str, at: &'a [u8]) -> Parsed<'a, T> {
    Err(AddrError { message, at })
}

/// Parses an IPv4 address, or an IPv6 address that may have a zone.
pub(crate) fn parse_addr(text: &[u8]) -> Result<Addr, String> {
    let parsed = match text.iter().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => {
            parse_v4(text).map(|octets| Addr { ip: Ipv4Addr::from(octets).into(), zone: vec![] })
        }
        Some(b':') => parse_v6(text),
        Some(_) => error("missing IPv6 address", b""),
        None => error("unable to parse IP", b""),
    };
    parsed.map_err(|AddrError { message, at }| {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", quote_bytes(at)) };
        format!("ParseAddr({}): {message}{at}", quote_bytes(text))
    })
}

fn parse_v4(text: &[u8]) -> Parsed<'_, [u8; 4]> {
    let (mut octets, mut filled) = ([0; 4], 0);
    let (mut value, mut digits) = (0_u16, 0);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return error("IPv4 field has octet with leading zero", b"");
                }
                value = value * 10 + u16::from(byte - b'0');
                digits += 1;
                let Ok(octet) = u8::try_from(value) else {
                    return error("IPv4 field has value >255", b"");
                };
                octets[filled] = octet;
            }
            b'.' => {
                if index == 0 || index == text.len() - 1 || text[index - 1] == b'.' {
                    return error("IPv4 field must have at least one digit", &text[index..]);
                }
                if filled == 3 {
                    return error("IPv4 address too long", b"");
                }
                filled += 1;
                (value, digits) = (0, 0);
            }
            _ => return error("unexpected character", &text[index..]),
        }
    }
    if filled < 3 { error("IPv4 address too short", b"") } else { Ok(octets) }
}

fn parse_v6(text: &[u8]) -> Parsed<'_, Addr> {
    let (address, zone) = match text.iter().position(|byte| *byte == b'%') {
        Some(at) if at + 1 == text.len() => return error("zone must be a non-empty string", b""),
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let ip = Ipv6Addr::from(parse_groups(address)?).into();
    Ok(Addr { ip, zone: zone.to_vec() })
}

/// The 16 bytes of an address without zone.
fn parse_groups(text: &[u8]) -> Parsed<'_, [u8; 16]> {
    let mut bytes: Vec<u8> = Vec::with_capacity(16);
    let (mut rest, mut ellipsis) = (text, None);
    if let Some(behind) = rest.strip_prefix(b"::") {
        (rest, ellipsis) = (behind, Some(0));
        if rest.is_empty() {
            return Ok([0; 16]);
        }
    }
    while bytes.len() < 16 {
        let (group, digits) = parse_group(rest)?;
        if rest.get(digits) == Some(&b'.') {
            if ellipsis.is_none() && bytes.len() != 12 {
                let why = "embedded IPv4 address must replace the final 2 fields of the address";
                return error(why, rest);
            }
            if bytes.len() > 12 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return error(why, rest);
            }
            bytes.extend(parse_v4(rest)?);
            rest = b"";
            break;
        }
        bytes.extend(group.to_be_bytes());
        rest = &rest[digits..];
        match rest {
            [] => break,
            [b':'] => return error("colon must be followed by more characters", rest),
            [b':', behind @ ..] => rest = behind,
            _ => return error("unexpected character, want colon", rest),
        }
        if let [b':', behind @ ..] = rest {
            if ellipsis.is_some() {
                return error("multiple :: in address", rest);
            }
            (rest, ellipsis) = (behind, Some(bytes.len()));
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return error("trailing garbage after address", rest);
    }
    expand(&bytes, ellipsis)
}

/// The value of the hexadecimal digits at the beginning, and their number.
fn parse_group(text: &[u8]) -> Parsed<'_, (u16, usize)> {
    let mut group = 0_u16;
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit());
    for (index, byte) in digits.clone().enumerate() {
        if index > 3 {
            return error("each group must have 4 or less digits", text);
        }
        let digit = char::from(*byte).to_digit(16).and_then(|it| u16::try_from(it).ok());
        group = (group << 4) | digit.unwrap_or_default();
    }
    match digits.count() {
        0 => error("each colon-separated field must have at least one digit", text),
        count => Ok((group, count)),
    }
}

/// Puts zeros where the `::` is.
fn expand<'a>(bytes: &[u8], ellipsis: Option<usize>) -> Parsed<'a, [u8; 16]> {
    let mut address = [0; 16];
    match ellipsis {
        None if bytes.len() < 16 => return error("address string too short", b""),
        None => address.copy_from_slice(bytes),
        Some(_) if bytes.len() == 16 => {
            return error("the :: must expand to at least one field of zeros", b"");
        }
        Some(at) => {
            let behind = bytes.len() - at;
            address[..at].copy_from_slice(&bytes[..at]);
            address[16 - behind..].copy_from_slice(&bytes[at..]);
        }
    }
    Ok(address)
}
