//! [`Field`]: a field of a schedule, such as the hours `8-18/2,23`.

use crate::field_path::quote;

/// The bit of a field that was written with `*` or `?`, without a step.
pub(super) const STAR: u64 = 1 << 63;

/// See the [module documentation](self).
pub(super) struct Field {
    low: u64,
    high: u64,
    /// The names of the numbers from `low` on.
    names: &'static [&'static str],
}

pub(super) const MINUTES: Field = Field { low: 0, high: 59, names: &[] };
pub(super) const HOURS: Field = Field { low: 0, high: 23, names: &[] };
pub(super) const DAYS: Field = Field { low: 1, high: 31, names: &[] };
pub(super) const MONTHS: Field = Field {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
pub(super) const WEEKDAYS: Field =
    Field { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Field {
    /// The bits of a list of ranges.
    pub(super) fn parse(&self, text: &str) -> Result<u64, String> {
        let mut bits = 0;
        for range in text.split(',').filter(|range| !range.is_empty()) {
            bits |= self.parse_range(range)?;
        }
        Ok(bits)
    }

    /// `3`, `*`, `1-5`, `*/5`, `1-5/2`; a single number with a step means up to the maximum.
    fn parse_range(&self, range: &str) -> Result<u64, String> {
        let parts: Vec<&str> = range.split('/').collect();
        let bounds: Vec<&str> = parts[0].split('-').collect();
        let mut star = 0;
        let (start, mut end) = match bounds.as_slice() {
            [] | ["*" | "?", ..] => {
                star = STAR;
                (self.low, self.high)
            }
            [only] => {
                let number = self.number(only)?;
                (number, number)
            }
            [low, high] => (self.number(low)?, self.number(high)?),
            [low, ..] => {
                self.number(low)?;
                return Err(format!("too many hyphens: {range}"));
            }
        };
        let step = match parts.as_slice() {
            [_] => 1,
            [_, step] => {
                let step = number(step)?;
                if bounds.len() == 1 {
                    end = self.high;
                }
                if step > 1 {
                    star = 0;
                }
                step
            }
            _ => return Err(format!("too many slashes: {range}")),
        };
        self.check(range, start, end, step)?;
        let mut bits = star;
        let mut number = start;
        while number <= end {
            bits |= 1 << number;
            number = number.saturating_add(step);
        }
        Ok(bits)
    }

    fn check(&self, range: &str, start: u64, end: u64, step: u64) -> Result<(), String> {
        let (low, high) = (self.low, self.high);
        if start < low {
            return Err(format!("beginning of range ({start}) below minimum ({low}): {range}"));
        }
        if end > high {
            return Err(format!("end of range ({end}) above maximum ({high}): {range}"));
        }
        if start > end {
            return Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {range}"
            ));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        match named {
            Some(index) => Ok(self.low + index as u64),
            None => number(text),
        }
    }
}

/// A number as Go's `Atoi` reads it.
fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse::<i64>() {
            Ok(number) => {
                return u64::try_from(number)
                    .map_err(|_| format!("negative number ({number}) not allowed: {text}"));
            }
            Err(_) => "value out of range",
        }
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quote(text)))
}
