//! Times as Go's `time.Parse` reads them and as the API writes them, with Go's words for a bad one.
//!
//! ```text
//! 2026-01-02T03:04:05Z              seconds: unchanged
//! 2026-01-02T03:04:05.678+01:00     seconds: 2026-01-02T02:04:05Z
//! 2026-01-02T03:04:05.678901Z       microseconds: unchanged, with exactly six digits
//! 0001-01-01T00:00:00Z              Go's zero time, which it writes as null
//! ```

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};

/// Reads an RFC 3339 time and returns it in UTC, to the second; `None` is Go's zero time. The error
/// is that of Go's `time.Parse`.
pub fn parse_time(text: &str) -> Result<Option<String>, String> {
    Ok(match rewrite(text, Precision::Seconds)? {
        CanonicalTime::Unchanged => Some(text.to_owned()),
        CanonicalTime::Null => None,
        CanonicalTime::Rewritten(written) => Some(written),
    })
}

/// How precisely a time is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    Seconds,
    Microseconds,
}

/// The canonical form of a time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CanonicalTime {
    Unchanged,
    Null,
    Rewritten(String),
}

/// Reads a time; the error is Go's message.
pub(super) fn rewrite(text: &str, precision: Precision) -> Result<CanonicalTime, String> {
    if is_canonical(text.as_bytes(), precision) {
        return Ok(CanonicalTime::Unchanged);
    }
    let written = Parser { whole: text, rest: text, precision }.parse()?;
    Ok(match written {
        None => CanonicalTime::Null,
        Some(written) if written == text => CanonicalTime::Unchanged,
        Some(written) => CanonicalTime::Rewritten(written),
    })
}

/// Whether it is certainly valid, in UTC, and of the right precision, which holds for almost every
/// time. Days after the 28th are left to the parser, which checks the month; so is year 1, Go's
/// zero.
fn is_canonical(text: &[u8], precision: Precision) -> bool {
    let layout: &[u8] = match precision {
        Precision::Seconds => b"0000-00-00T00:00:00Z",
        Precision::Microseconds => b"0000-00-00T00:00:00.000000Z",
    };
    let matches = text.len() == layout.len()
        && text.iter().zip(layout).all(
            |(c, like)| {
                if *like == b'0' { c.is_ascii_digit() } else { c == like }
            },
        );
    let pair = |at: usize| (text[at] - b'0') * 10 + (text[at + 1] - b'0');
    matches
        && text[0] != b'0'
        && (1..=12).contains(&pair(5))
        && (1..=28).contains(&pair(8))
        && pair(11) < 24
        && pair(14) < 60
        && pair(17) < 60
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    precision: Precision,
}

impl Parser<'_> {
    /// Upstream: Go's `time.Parse` with `time.RFC3339` or the API's layout for microseconds.
    fn parse(&mut self) -> Result<Option<String>, String> {
        let year = self.digits(4, "2006")?;
        self.literal("-")?;
        let month = self.number("01", 2)?;
        self.in_range((1..=12).contains(&month), "month")?;
        self.literal("-")?;
        let day = self.number("02", 2)?;
        self.literal("T")?;
        let hour = self.number("15", 1)?;
        self.in_range(hour < 24, "hour")?;
        self.literal(":")?;
        let minute = self.number("04", 2)?;
        self.in_range(minute < 60, "minute")?;
        self.literal(":")?;
        let second = self.number("05", 2)?;
        self.in_range(second < 60, "second")?;
        let micros = self.fraction()?;
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!("parsing time {:?}: extra text: {:?}", self.whole, self.rest));
        }
        let date = Date::new(small(year), small(month), small(day));
        self.in_range(date.is_ok(), "day")?;
        let local = date.map(|date| {
            date.at(small(hour), small(minute), small(second), micros.cast_signed() * 1000)
        });
        // Not a jiff::Timestamp, which ends a day before the year 9999 does.
        let utc = local.and_then(|local| local.checked_sub(SignedDuration::from_secs(offset)));
        self.in_range(utc.is_ok(), "time")?;
        Ok(utc.ok().and_then(|utc| self.write(utc)))
    }

    fn write(&self, utc: DateTime) -> Option<String> {
        let zero = Date::constant(1, 1, 1).at(0, 0, 0, 0);
        match self.precision {
            _ if utc == zero => None,
            Precision::Seconds => Some(utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            Precision::Microseconds => Some(utc.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()),
        }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), String> {
        self.rest =
            self.rest.strip_prefix(literal).ok_or_else(|| self.cannot_parse(self.rest, literal))?;
        Ok(())
    }

    /// Exactly this number of digits.
    fn digits(&mut self, count: usize, element: &'static str) -> Result<u32, String> {
        let digits = self.rest.get(..count).filter(|it| it.bytes().all(|c| c.is_ascii_digit()));
        let value = digits.and_then(|digits| digits.parse().ok());
        let value = value.ok_or_else(|| self.cannot_parse(self.rest, element))?;
        self.rest = &self.rest[count..];
        Ok(value)
    }

    /// One or two digits, but not fewer than `least`.
    fn number(&mut self, element: &'static str, least: usize) -> Result<u32, String> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        self.digits(digits.max(least), element)
    }

    /// The fraction in microseconds: exactly six digits if the layout has them, else as many as
    /// there are.
    fn fraction(&mut self) -> Result<u32, String> {
        let point = self.rest.strip_prefix(['.', ',']);
        let digits = point.map_or(0, |it| it.bytes().take_while(u8::is_ascii_digit).count());
        let Some(point) = point.filter(|_| digits > 0) else {
            return match self.precision {
                Precision::Seconds => Ok(0),
                Precision::Microseconds => Err(self.cannot_parse(self.rest, ".000000")),
            };
        };
        if self.precision == Precision::Microseconds && digits < 6 {
            return Err(self.cannot_parse(self.rest, ".000000"));
        }
        let taken = if self.precision == Precision::Seconds { digits } else { 6 };
        self.rest = &point[taken..];
        let six = format!("{:0<6.6}", &point[..taken]);
        Ok(six.parse().unwrap_or_default())
    }

    /// The offset in seconds.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let zone = self.rest;
        let bad = || self.cannot_parse(zone, "Z07:00");
        let text = zone.get(..6).ok_or_else(bad)?;
        let two = |at: usize| {
            let digits = text.get(at..at + 2).filter(|it| it.bytes().all(|c| c.is_ascii_digit()));
            digits.and_then(|it| it.parse::<i64>().ok())
        };
        let (Some(hours), Some(minutes), Some(":")) = (two(1), two(4), text.get(3..4)) else {
            return Err(bad());
        };
        let sign = match &text[..1] {
            "+" => 1,
            "-" => -1,
            _ => return Err(bad()),
        };
        self.rest = &zone[6..];
        self.in_range(hours <= 24, "time zone offset hour")?;
        self.in_range(minutes <= 60, "time zone offset minute")?;
        Ok(sign * (hours * 60 + minutes) * 60)
    }

    fn in_range(&self, holds: bool, what: &str) -> Result<(), String> {
        if holds {
            Ok(())
        } else {
            Err(format!("parsing time {:?}: {what} out of range", self.whole))
        }
    }

    fn cannot_parse(&self, value: &str, element: &str) -> String {
        let layout = match self.precision {
            Precision::Seconds => "2006-01-02T15:04:05Z07:00",
            Precision::Microseconds => "2006-01-02T15:04:05.000000Z07:00",
        };
        format!(
            "parsing time {:?} as {layout:?}: cannot parse {value:?} as {element:?}",
            self.whole
        )
    }
}

/// Converts a number of at most four digits, which fits the types of the calendar.
fn small<T: TryFrom<u32> + Default>(value: u32) -> T {
    T::try_from(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_utc_is_unchanged() {
        check("2026-02-28T03:04:05Z", "2026-02-28T03:04:05Z");
        check("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z");
        check("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z");
    }

    #[test]
    fn a_time_is_moved_to_utc_and_cut_to_seconds() {
        check("2026-01-02T00:04:05.999+01:30", "2026-01-01T22:34:05Z");
        check("2026-12-31T23:00:00-02:00", "2027-01-01T01:00:00Z");
        check("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z");
    }

    #[test]
    fn the_zero_time_is_null() {
        check("0001-01-01T00:00:00Z", "null");
    }

    #[test]
    fn an_invalid_time_is_reported_in_the_words_of_go() {
        check("", r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#);
        check(
            "2026-01-02",
            r#"parsing time "2026-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
        );
        check("2026-13-02T00:00:00Z", r#"parsing time "2026-13-02T00:00:00Z": month out of range"#);
        check("2026-02-30T00:00:00Z", r#"parsing time "2026-02-30T00:00:00Z": day out of range"#);
        check("2026-02-03T00:00:00ZZ", r#"parsing time "2026-02-03T00:00:00ZZ": extra text: "Z""#);
        check(
            "2026-02-03T00:00:00++1:00",
            r#"parsing time "2026-02-03T00:00:00++1:00" as "2006-01-02T15:04:05Z07:00": cannot parse "++1:00" as "Z07:00""#,
        );
    }

    #[test]
    fn microseconds_have_six_digits() {
        let micro = |text| shown(text, Precision::Microseconds);
        assert_eq!(micro("2026-01-02T03:04:05.678901Z"), "2026-01-02T03:04:05.678901Z");
        assert_eq!(micro("2026-01-02T03:04:05.678901+01:00"), "2026-01-02T02:04:05.678901Z");
        assert_eq!(
            micro("2026-01-02T03:04:05Z"),
            r#"parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(shown(text, Precision::Seconds), expected);
    }

    fn shown(text: &str, precision: Precision) -> String {
        match rewrite(text, precision) {
            Ok(CanonicalTime::Unchanged) => text.to_owned(),
            Ok(CanonicalTime::Null) => "null".to_owned(),
            Ok(CanonicalTime::Rewritten(written)) => written,
            Err(message) => message,
        }
    }
}
