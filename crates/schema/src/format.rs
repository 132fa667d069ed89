//! The values of `format` that kube-apiserver validates; others are ignored.
//!
//! Each accepts the same values as the Go function that upstream calls, even where that is more
//! lenient or more strict than the standard it is named after.

mod address;
mod number;
mod time;

use std::sync::LazyLock;

use regex::Regex;

use crate::structural::Type;
use cel::go_url::Url;
use machinery::names;

/// A format that is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

/// The formats of strings. Dashes in the names are ignored.
const STRING_FORMATS: [(Format, &str); 26] = [
    (Format::BsonObjectId, "bsonobjectid"),
    (Format::Uri, "uri"),
    (Format::Email, "email"),
    (Format::Hostname, "hostname"),
    (Format::Ipv4, "ipv4"),
    (Format::Ipv6, "ipv6"),
    (Format::Cidr, "cidr"),
    (Format::Mac, "mac"),
    (Format::Uuid, "uuid"),
    (Format::Uuid3, "uuid3"),
    (Format::Uuid4, "uuid4"),
    (Format::Uuid5, "uuid5"),
    (Format::Isbn, "isbn"),
    (Format::Isbn10, "isbn10"),
    (Format::Isbn13, "isbn13"),
    (Format::CreditCard, "creditcard"),
    (Format::Ssn, "ssn"),
    (Format::HexColor, "hexcolor"),
    (Format::RgbColor, "rgbcolor"),
    (Format::Byte, "byte"),
    (Format::Password, "password"),
    (Format::Date, "date"),
    (Format::Duration, "duration"),
    (Format::DateTime, "date-time"),
    (Format::ShortName, "k8s-short-name"),
    (Format::LongName, "k8s-long-name"),
];

/// The formats of numbers, and the type to which each applies.
const NUMBER_FORMATS: [(Format, &str, Type); 4] = [
    (Format::Int32, "int32", Type::Integer),
    (Format::Int64, "int64", Type::Integer),
    (Format::Float, "float", Type::Number),
    (Format::Double, "double", Type::Number),
];

impl Format {
    /// The format of this name for values of this type; None if it is ignored.
    pub(crate) fn of(name: &str, kind: Type) -> Option<Self> {
        match kind {
            Type::Any | Type::String => {
                let plain = |name: &str| name.replace('-', "");
                let name = plain(name);
                STRING_FORMATS.iter().find(|(_, it)| plain(it) == name).map(|(format, _)| *format)
            }
            Type::Integer | Type::Number => NUMBER_FORMATS
                .iter()
                .find(|(_, it, of)| *it == name && *of == kind)
                .map(|(format, ..)| *format),
            _ => None,
        }
    }

    /// The name in error messages.
    pub(crate) fn name(self) -> &'static str {
        let numbers = NUMBER_FORMATS.iter().map(|(format, name, _)| (*format, *name));
        STRING_FORMATS
            .into_iter()
            .chain(numbers)
            .find(|(format, _)| *format == self)
            .map_or("", |(_, name)| name)
    }

    /// Whether it applies to strings.
    pub(crate) fn is_for_strings(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// Whether the text has this format.
    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::Password => true,
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Uri => Url::parse_request_uri(text).is_ok(),
            Self::Email => address::is_email(text),
            Self::Hostname => address::is_hostname(text),
            Self::Ipv4 => address::is_ipv4(text),
            Self::Ipv6 => address::is_ipv6(text),
            Self::Cidr => address::is_cidr(text),
            Self::Mac => address::is_mac(text),
            Self::Uuid => number::is_uuid(text, None),
            Self::Uuid3 => number::is_uuid(text, Some('3')),
            Self::Uuid4 => number::is_uuid(text, Some('4')),
            Self::Uuid5 => number::is_uuid(text, Some('5')),
            Self::Isbn => number::is_isbn10(text) || number::is_isbn13(text),
            Self::Isbn10 => number::is_isbn10(text),
            Self::Isbn13 => number::is_isbn13(text),
            Self::CreditCard => number::is_credit_card(text),
            Self::Ssn => number::is_ssn(text),
            Self::HexColor => is_hex_color(text),
            Self::RgbColor => RGB_COLOR.is_match(text),
            Self::Byte => is_base64(text),
            Self::Date => time::is_date(text),
            Self::Duration => time::is_duration(text),
            Self::DateTime => time::is_date_time(text),
            Self::ShortName => names::dns1123_label(text).is_empty(),
            Self::LongName => names::dns1123_subdomain(text).is_empty(),
        }
    }
}

/// Whether the text is a URL with a scheme and a host.
pub fn is_absolute_uri(text: &str) -> bool {
    Url::parse_request_uri(text).is_ok_and(|url| !url.scheme.is_empty() && !url.host().is_empty())
}

static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    const PART: &str =
        r"[ \t\n\f\r]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[ \t\n\f\r]*";
    Regex::new(&format!(r"\Argb\({PART},{PART},{PART}\)\z")).expect("the expression is well formed")
});

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Base64 with padding, not empty.
fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !data.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - data.len() <= 2
        && data.bytes().all(is_digit)
}

#[cfg(test)]
mod tests;
