//! [`Quantity`]: an amount with a suffix, such as `500m`, `1Gi` or `1e3`.
//!
//! The printed form keeps the family of the suffix and has no fraction:
//!
//! ```
//! use machinery::quantity::canonical;
//! assert_eq!(canonical("0.5")?, "500m");
//! assert_eq!(canonical("1048576Ki")?, "1Gi");
//! assert_eq!(canonical("1000e3")?, "1e6");
//! # Ok::<(), machinery::quantity::QuantityError>(())
//! ```
//!
//! An amount is exact to 38 digits and never finer than a billionth (`1n`). Finer amounts are
//! rounded away from zero, so that a positive request remains positive.

mod decimal;

use std::cmp::Ordering;
use std::fmt;

use decimal::{Decimal, EXPONENT_MAX};

/// Why a text is not a quantity; the messages are Kubernetes'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not match the format.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// See the [module documentation](self). Equality compares amounts: `1Gi` equals `1024Mi`.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Decimal,
    format: Format,
    /// The original text, if upstream prints it unchanged although it may not be canonical.
    written: Option<Box<str>>,
}

/// The family of the suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `12e6`
    Exponent,
    /// `12Mi`
    Binary,
    /// `12M`
    Decimal,
}

const DECIMAL_SUFFIXES: [(&str, i64); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
/// Each is 1024 times the one before.
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The form in which upstream would store `text`. White space around it is ignored.
pub fn canonical(text: &str) -> Result<String, QuantityError> {
    Ok(Quantity::parse(text.trim())?.to_string())
}

impl Quantity {
    /// Zero.
    pub fn zero() -> Self {
        Self::from(0)
    }

    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        let (format, scale) = suffix_meaning(parts.suffix)?;
        let mut amount = match format {
            Format::Binary => {
                Decimal::new(parts.negative, parts.whole, parts.fraction, 0).times_1024(scale)
            }
            _ => Decimal::new(parts.negative, parts.whole, parts.fraction, scale),
        };
        let mut printed_format = format;
        if format == Format::Binary {
            // Upstream limits binary quantities, and no others, to the range of an int64.
            let max = Decimal::from(i64::MAX);
            let min = Decimal::from(-i64::MAX);
            amount = amount.min(max).max(min);
            if amount > Decimal::from(0) && amount < Decimal::from(1) {
                printed_format = Format::Decimal;
            }
        }
        let written = parts.is_printed_as_written(format, scale).then(|| text.into());
        Ok(Self { amount, format: printed_format, written })
    }

    /// Whether the amount is 0.
    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// Whether the amount is below 0.
    pub fn is_negative(&self) -> bool {
        self.amount < Decimal::from(0)
    }

    /// As an integer: fractions are rounded away from zero, and overflows are clamped.
    pub fn value(&self) -> i64 {
        self.amount.rounded(0)
    }

    /// As thousandths: smaller fractions are rounded away from zero, and overflows are clamped.
    pub fn milli_value(&self) -> i64 {
        self.amount.rounded(-3)
    }

    /// The sum, in the suffixes of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        self.with_amount(other, self.amount.add(other.amount))
    }

    /// The difference, in the suffixes of `self`, or of `other` if `self` is zero.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        self.with_amount(other, self.amount.add(other.amount.negated()))
    }

    fn with_amount(&self, other: &Self, amount: Decimal) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { amount, format, written: None }
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self { amount: Decimal::from(value), format: Format::Decimal, written: None }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.amount == other.amount
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let format = match self.format {
            // Below 1Ki, and where the suffix would hide a fraction, decimal suffixes are used.
            Format::Binary if self.amount.is_below(1024) || !self.amount.is_whole() => {
                Format::Decimal
            }
            format => format,
        };
        if format == Format::Binary
            && let Some((mantissa, power)) = self.amount.in_powers_of_1024()
        {
            let suffix =
                power.checked_sub(1).and_then(|index| BINARY_SUFFIXES.get(index)).unwrap_or(&"");
            return write!(f, "{mantissa}{suffix}");
        }
        let (digits, exponent) = self.amount.in_thousands();
        match DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent) {
            _ if exponent == 0 => f.write_str(&digits),
            Some((suffix, _)) if format != Format::Exponent => write!(f, "{digits}{suffix}"),
            _ => write!(f, "{digits}e{exponent}"),
        }
    }
}

/// The family of a suffix, and its power of ten or of 1024.
fn suffix_meaning(suffix: &str) -> Result<(Format, i64), QuantityError> {
    if let Some((_, power)) = DECIMAL_SUFFIXES.iter().find(|(text, _)| *text == suffix) {
        return Ok((Format::Decimal, *power));
    }
    for (power, text) in (1..).zip(BINARY_SUFFIXES) {
        if text == suffix {
            return Ok((Format::Binary, power));
        }
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok((Format::Exponent, exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX)))
}

/// `-12.50Ki` as `-`, `12`, `50`, `Ki`.
struct Parts<'a> {
    negative: bool,
    /// Without leading zeros; `0` if there is nothing else.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let negative = text.starts_with('-');
        let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, rest) = split_digits(rest.trim_start_matches('0'));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, whole, fraction, suffix })
    }

    /// Whether upstream's fast path for short numbers applies and keeps the text: `1.500` does not
    /// become `1500m`. The numeric limits below are those of the fast path.
    ///
    /// Upstream: `apimachinery/pkg/api/resource/quantity.go` `ParseQuantity`.
    fn is_printed_as_written(&self, format: Format, scale: i64) -> bool {
        let length = self.whole.len() + self.fraction.len();
        if format == Format::Binary {
            let digits_of_suffix = usize::try_from(scale * 3).unwrap_or(usize::MAX);
            let needs_no_larger_suffix =
                self.whole.parse::<u64>().is_ok_and(|value| value % 8 != 0);
            return self.fraction.is_empty()
                && length + digits_of_suffix <= 14
                && needs_no_larger_suffix;
        }
        let scale = scale - i64::try_from(self.fraction.len()).unwrap_or(i64::MAX / 2);
        let last = if self.fraction.is_empty() { self.whole } else { self.fraction };
        let ends_in_thousands = match self.fraction.len() {
            0 | 3.. => last.ends_with("000"),
            short => {
                let whole_zeros = &"000"[short..];
                last.bytes().all(|b| b == b'0') && self.whole.ends_with(whole_zeros)
            }
        };
        length <= 18
            && scale >= -9
            && scale % 3 == 0
            && !ends_in_thousands
            && !self.whole.starts_with('0')
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests;
