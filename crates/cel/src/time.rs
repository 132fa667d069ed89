//! [`Timestamp`] and [`Duration`] with Go's ranges and spellings, because cel-go has them.

use std::{cmp::Ordering, fmt};

const NANOS: i64 = 1_000_000_000;

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const MIN_SECONDS: i64 = -62_135_596_800;
const MAX_SECONDS: i64 = 253_402_300_799;

/// A span of time in nanoseconds: some 292 years either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    /// The whole span.
    pub nanoseconds: i64,
}

/// A point in time between the years 1 and 9999.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Since 1970, without leap seconds.
    pub seconds: i64,
    /// Added to the seconds; below one second.
    pub nanoseconds: u32,
    /// How far ahead of UTC the clock was that it was read from, in seconds. It is written as it
    /// was read; otherwise this does not count.
    offset: i64,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }
}

/// A timestamp taken apart.
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From one.
    pub(crate) month: i64,
    /// From one.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    /// From zero.
    pub(crate) day_of_year: i64,
    /// Sunday is zero.
    pub(crate) day_of_week: i64,
}

impl Duration {
    /// Reads `1h30m`, `1.5s`, `-2ms`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self { nanoseconds: 0 });
        }
        if rest.is_empty() {
            return None;
        }
        let mut rest = rest;
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (nanoseconds, left) = Self::component(rest)?;
            total += nanoseconds;
            rest = left;
        }
        let total = if negative { -total } else { total };
        Some(Self { nanoseconds: i64::try_from(total).ok()? })
    }

    /// One number with its unit at the head of `text`.
    fn component(text: &str) -> Option<(i128, &str)> {
        let number = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, rest) = text.split_at(number);
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit_end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() > 19 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction = &fraction[..fraction.len().min(18)];
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        Some((whole * unit + part * unit / scale, rest))
    }

    /// Reads what OpenAPI's `duration` format allows: Go's spelling, or `2 days`.
    pub fn parse_lenient(text: &str) -> Option<Self> {
        const UNITS: &[(&[&str], i64)] = &[
            (&["ns", "nano", "nanos", "nanosecond", "nanoseconds"], 1),
            (&["us", "µs", "micro", "micros", "microsecond", "microseconds"], 1_000),
            (&["ms", "milli", "millis", "millisecond", "milliseconds"], 1_000_000),
            (&["s", "sec", "secs", "second", "seconds"], NANOS),
            (&["m", "min", "mins", "minute", "minutes"], 60 * NANOS),
            (&["h", "hr", "hrs", "hour", "hours"], 3_600 * NANOS),
            (&["d", "day", "days"], 86_400 * NANOS),
            (&["w", "wk", "wks", "week", "weeks"], 7 * 86_400 * NANOS),
        ];
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut total: i64 = 0;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit())?;
            let number: i64 = rest[..digits].parse().ok()?;
            rest = rest[digits..].trim_start();
            let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
            let (_, unit) = UNITS.iter().find(|(names, _)| names.contains(&&rest[..end]))?;
            total = total.checked_add(number.checked_mul(*unit)?)?;
            rest = rest[end..].trim_start();
        }
        (!text.trim().is_empty()).then_some(Self { nanoseconds: total })
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "Go prints seconds as a float, too")]
        let seconds =
            (self.nanoseconds / NANOS) as f64 + (self.nanoseconds % NANOS) as f64 / NANOS as f64;
        write!(f, "{seconds}s")
    }
}

impl Timestamp {
    /// The beginning of the year 1: what Go calls a time that was not set.
    pub(crate) const ZERO: Self = Self { seconds: MIN_SECONDS, nanoseconds: 0, offset: 0 };

    /// A timestamp, if it is in range.
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        let in_range = (MIN_SECONDS..=MAX_SECONDS).contains(&seconds);
        in_range.then_some(Self { seconds, nanoseconds, offset: 0 })
    }

    /// Reads RFC 3339, fractions of any length included.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 || !text.is_ascii() || bytes[10] != b'T' {
            return None;
        }
        let day = days_of(&text[..10])?;
        if bytes[13] != b':' || bytes[16] != b':' {
            return None;
        }
        let (hour, minute, second) =
            (number(&text[11..13])?, number(&text[14..16])?, number(&text[17..19])?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut rest = &text[19..];
        let mut nanoseconds = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let end = fraction.find(|c: char| !c.is_ascii_digit())?;
            if end == 0 {
                return None;
            }
            let digits = &fraction[..end.min(9)];
            let scale = 10_u32.pow(u32::try_from(9 - digits.len()).ok()?);
            nanoseconds = digits.parse::<u32>().ok()? * scale;
            rest = &fraction[end..];
        }
        let offset = match rest {
            "Z" => 0,
            _ => offset_of(rest)?,
        };
        let seconds = day * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        Some(Self { offset, ..Self::new(seconds, nanoseconds)? })
    }

    /// Reads `2024-06-01` as its first moment.
    pub fn parse_date(text: &str) -> Option<Self> {
        if !text.is_ascii() || text.len() != 10 {
            return None;
        }
        Self::new(days_of(text)? * 86_400, 0)
    }

    pub(crate) fn plus(self, duration: Duration) -> Option<Self> {
        let nanoseconds = i64::from(self.nanoseconds) + duration.nanoseconds.rem_euclid(NANOS);
        let carried = duration.nanoseconds.div_euclid(NANOS) + nanoseconds.div_euclid(NANOS);
        let nanoseconds = u32::try_from(nanoseconds.rem_euclid(NANOS)).ok()?;
        let sum = Self::new(self.seconds.checked_add(carried)?, nanoseconds)?;
        Some(Self { offset: self.offset, ..sum })
    }

    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        let nanoseconds = i128::from(self.nanoseconds) - i128::from(earlier.nanoseconds);
        let total = seconds * i128::from(NANOS) + nanoseconds;
        Some(Duration { nanoseconds: i64::try_from(total).ok()? })
    }

    /// The parts on a clock that is `offset` seconds ahead of UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let local = self.seconds + offset;
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
            day_of_year: days - days_from_civil(year, 1, 1),
            day_of_week: (days + 4).rem_euclid(7),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second, .. } = self.civil(self.offset);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if self.nanoseconds > 0 {
            let fraction = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60);
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// `+01:30` as seconds.
fn offset_of(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn number(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

fn days_of(date: &str) -> Option<i64> {
    let bytes = date.as_bytes();
    if bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..10])?);
    if !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Days since 1970 in the proleptic Gregorian calendar; years begin in March to put the leap day
/// last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_and_written_after_rfc_3339() {
        let check = |text: &str, expected: &str| {
            let shown = Timestamp::parse(text).map(|it| it.to_string());
            assert_eq!(shown.unwrap_or_default(), expected, "{text}");
        };
        check("2024-02-29T12:30:00Z", "2024-02-29T12:30:00Z");
        check("2024-01-01T00:00:00.120+01:30", "2024-01-01T00:00:00.12+01:30");
        check("2024-01-01T00:00:00-00:30", "2024-01-01T00:00:00-00:30");
        check("2023-02-29T00:00:00Z", "");
        check("2024-01-01 00:00:00Z", "");
        check("0000-12-31T23:59:59Z", "");
        check("2024-01-01T00:00:00", "");
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let check = |text: &str, expected: &str| {
            let shown = Duration::parse(text).map(|it| it.to_string());
            assert_eq!(shown.unwrap_or_default(), expected, "{text}");
        };
        check("1h30m", "5400s");
        check("-1.5s", "-1.5s");
        check("100ms", "0.1s");
        check(".5h", "1800s");
        check("1d", "");
        check("1", "");
        check("9999999999h", "");
        assert_eq!(Duration::parse_lenient("2 days").map(|it| it.to_string()).unwrap(), "172800s");
        assert_eq!(Duration::parse_lenient("nonsense"), None);
    }
}
