//! [`Timestamp`] and [`Duration`] with the ranges and text formats of cel-go.

use std::cmp::Ordering;
use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, datetime};

const NANOS: i64 = 1_000_000_000;

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// The Gregorian calendar repeats itself after this many seconds, which are 400 years.
const CALENDAR_CYCLE: i64 = 146_097 * 86_400;
const CALENDAR_CYCLE_YEARS: i64 = 400;

/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z.
const MIN_SECONDS: i64 = -62_135_596_800;
const MAX_SECONDS: i64 = 253_402_300_799;

/// A span of time in nanoseconds, up to 292 years in either direction.
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
    /// The offset from UTC of the parsed text, in seconds. It is only used to print the timestamp
    /// in the same time zone.
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

/// The date and time of day of a timestamp.
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
    /// Parses `1h30m`, `1.5s`, `-2ms`.
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

    /// The nanoseconds of the number with a unit at the start of `text`, and the rest.
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
        // A whole part of more than 19 digits overflows an i64.
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() > 19 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // As Go, ignores fraction digits that do not change the nanoseconds.
        let fraction = &fraction[..fraction.len().min(18)];
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        Some((whole * unit + part * unit / scale, rest))
    }

    /// Parses the values of OpenAPI's `duration` format: Go's format, or `2 days`.
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
    /// The start of the year 1, which is Go's zero time.
    pub(crate) const ZERO: Self = Self { seconds: MIN_SECONDS, nanoseconds: 0, offset: 0 };

    /// None if the timestamp is out of range.
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        let in_range = (MIN_SECONDS..=MAX_SECONDS).contains(&seconds);
        in_range.then_some(Self { seconds, nanoseconds, offset: 0 })
    }

    /// Parses RFC 3339 with a fraction of any length.
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

    /// Parses `2024-06-01` as midnight UTC.
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

    /// The date and time of day in a time zone that is `offset` seconds ahead of UTC.
    pub(crate) fn civil(self, offset: i64) -> Civil {
        let mut local = self.seconds + offset;
        let mut years = 0;
        if local > MAX_SECONDS {
            // Later dates are beyond jiff's calendar, so the date one cycle earlier is computed.
            (local, years) = (local - CALENDAR_CYCLE, CALENDAR_CYCLE_YEARS);
        }
        let at = EPOCH.saturating_add(SignedDuration::from_secs(local));
        Civil {
            year: i64::from(at.year()) + years,
            month: at.month().into(),
            day: at.day().into(),
            hour: at.hour().into(),
            minute: at.minute().into(),
            second: at.second().into(),
            day_of_year: i64::from(at.day_of_year()) - 1,
            day_of_week: at.weekday().to_sunday_zero_offset().into(),
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

/// The seconds of `+01:30`.
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
    let small = |number: i64| i8::try_from(number).ok();
    let date = Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    Some(date.duration_since(EPOCH.date()).as_secs() / 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_and_printed_as_rfc_3339() {
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
    fn a_time_zone_can_shift_the_date_into_the_year_10000() {
        let last = Timestamp::parse("9999-12-31T23:59:59Z").unwrap();
        let Civil { year, month, day, hour, day_of_year, day_of_week, .. } = last.civil(3_600);
        assert_eq!((year, month, day, hour), (10_000, 1, 1, 0));
        assert_eq!((day_of_year, day_of_week), (0, 6));
    }

    #[test]
    fn a_time_zone_can_shift_the_date_into_the_year_0() {
        let first = Timestamp::parse("0001-01-01T00:00:00Z").unwrap();
        let Civil { year, month, day, hour, day_of_year, day_of_week, .. } = first.civil(-3_600);
        assert_eq!((year, month, day, hour), (0, 12, 31, 23));
        assert_eq!((day_of_year, day_of_week), (365, 0));
    }

    #[test]
    fn durations_are_parsed_as_in_go() {
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
