//! RFC 3339 timestamps, and durations as kubectl prints them.
//!
//! ```
//! use machinery::timestamp;
//! assert_eq!(timestamp::parse("2024-05-06T07:08:09.5+02:00"), Some((1_714_972_089, 500_000_000)));
//! assert_eq!(timestamp::format_seconds(1_714_972_089), "2024-05-06T05:08:09Z");
//! assert_eq!(timestamp::human_duration(150), "2m30s");
//! ```

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time, datetime};

const DAY: i64 = 86_400;
const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);
/// The first second of year 0, and the first after year 9999: RFC 3339 years have four digits.
const FIRST: i64 = -62_167_219_200;
const END: i64 = 253_402_300_800;

/// Seconds and nanoseconds since 1970 of an RFC 3339 timestamp.
pub fn parse(text: &str) -> Option<(i64, u32)> {
    let (date_time, rest) = text.as_bytes().split_at_checked(19)?;
    let number = |range: std::ops::Range<usize>| digits(&date_time[range]);
    let separators = [date_time[4], date_time[7], date_time[10], date_time[13], date_time[16]];
    if separators != *b"--T::" {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let date = Date::new(i16::try_from(year).ok()?, small(month)?, small(day)?).ok()?;
    let time = Time::new(small(hour)?, small(minute)?, small(second)?, 0).ok()?;
    let (nanos, zone) = fraction(rest)?;
    let local = date.to_datetime(time).duration_since(EPOCH).as_secs();
    Some((local - zone_offset(zone)?, nanos))
}

/// `2024-05-06T07:08:09Z`. Years outside of 0 to 9999 are clamped.
pub fn format_seconds(seconds: i64) -> String {
    let seconds = seconds.clamp(FIRST, END - 1);
    let at = EPOCH.saturating_add(SignedDuration::from_secs(seconds));
    let mut text = String::with_capacity("2024-05-06T07:08:09.123456Z".len());
    push_digits(&mut text, at.year().unsigned_abs().into(), 4);
    for (separator, number) in [
        ('-', at.month()),
        ('-', at.day()),
        ('T', at.hour()),
        (':', at.minute()),
        (':', at.second()),
    ] {
        text.push(separator);
        push_digits(&mut text, number.unsigned_abs().into(), 2);
    }
    text.push('Z');
    text
}

/// `2024-05-06T07:08:09.123456Z`, truncated to microseconds.
pub fn format_micros(seconds: i64, nanos: u32) -> String {
    let mut text = format_seconds(seconds);
    text.pop();
    text.push('.');
    push_digits(&mut text, nanos.min(999_999_999) / 1000, 6);
    text.push('Z');
    text
}

/// Appends a number with leading zeros. `format!` takes ten times as long.
fn push_digits(text: &mut String, number: u32, width: u32) {
    for power in (0..width).rev() {
        text.push(char::from_digit(number / 10_u32.pow(power) % 10, 10).unwrap_or('0'));
    }
}

/// An age in two or three figures, as kubectl shows it: `5s`, `2m30s`, `3h12m`, `5d`, `2y300d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY);
    let years = days / 365;
    match seconds {
        // As upstream, tolerates a clock that is a second off.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two_units(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two_units(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two_units(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two_units(years, 'y', days % 365, 'd'),
        252_288_000.. => format!("{years}y"),
    }
}

fn two_units(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

fn small(number: i64) -> Option<i8> {
    number.try_into().ok()
}

/// The nanoseconds of an optional `.123`, and what follows it.
fn fraction(rest: &[u8]) -> Option<(u32, &[u8])> {
    let Some(after_dot) = rest.strip_prefix(b".").or_else(|| rest.strip_prefix(b",")) else {
        return Some((0, rest));
    };
    let length = after_dot.iter().take_while(|b| b.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let (figures, zone) = after_dot.split_at(length);
    let padded = figures.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some((padded.fold(0, |sum, b| sum * 10 + u32::from(b - b'0')), zone))
}

/// Seconds east of Greenwich.
fn zone_offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits(&[*h1, *h2])?, digits(&[*m1, *m2])?);
            let offset = (hours <= 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            Some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_rfc_3339_timestamps_are_parsed() {
        let check = |text: &str, expected| assert_eq!(parse(text), expected, "{text}");
        check("1970-01-01T00:00:00Z", Some((0, 0)));
        check("2024-02-29T23:59:59Z", Some((1_709_251_199, 0)));
        check("1969-12-31T23:59:59.25Z", Some((-1, 250_000_000)));
        check("2024-05-06T07:08:09.123456789123+02:00", Some((1_714_972_089, 123_456_789)));
        check("2024-05-06T07:08:09-05:30", Some((1_714_999_089, 0)));
        check("2023-02-29T00:00:00Z", None);
        check("2024-13-01T00:00:00Z", None);
        check("2024-01-01T24:00:00Z", None);
        check("2024-01-01T00:00:60Z", None);
        check("2024-01-01T00:00:00", None);
        check("2024-01-01 00:00:00Z", None);
        check("2024-01-01T00:00:00.Z", None);
        check("2024-01-01T00:00:00+0100", None);
        check("yesterday", None);
        check("２０２４-05-06T07:08:09Z", None);
        check("", None);
    }

    #[test]
    fn formatted_times_parse_back() {
        for seconds in (FIRST..END).step_by(1_234_567_891).chain([0, FIRST, END - 1]) {
            assert_eq!(parse(&format_seconds(seconds)), Some((seconds, 0)));
        }
        assert_eq!(format_micros(1_714_972_089, 123_456_789), "2024-05-06T05:08:09.123456Z");
        assert_eq!(format_seconds(i64::MAX), "9999-12-31T23:59:59Z");
        assert_eq!(format_seconds(i64::MIN), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn ages_have_two_or_three_figures() {
        let check = |seconds, expected| assert_eq!(human_duration(seconds), expected);
        check(-2, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(150, "2m30s");
        check(600, "10m");
        check(179 * 60 + 59, "179m");
        check(3 * 3600, "3h");
        check(3 * 3600 + 12 * 60, "3h12m");
        check(8 * 3600 + 1800, "8h");
        check(47 * 3600, "47h");
        check(48 * 3600, "2d");
        check(50 * 3600, "2d2h");
        check(8 * DAY, "8d");
        check(729 * DAY, "729d");
        check(730 * DAY, "2y");
        check((730 + 300) * DAY, "2y300d");
        check(8 * 365 * DAY + DAY, "8y");
    }
}
