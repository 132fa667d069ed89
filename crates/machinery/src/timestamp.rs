//! Points in time as the wire writes them, and ages as people read them.
//!
//! ```
//! use machinery::timestamp;
//! assert_eq!(timestamp::parse("2024-05-06T07:08:09.5+02:00"), Some((1_714_972_089, 500_000_000)));
//! assert_eq!(timestamp::format_seconds(1_714_972_089), "2024-05-06T05:08:09Z");
//! assert_eq!(timestamp::human_duration(150), "2m30s");
//! ```

const DAY: i64 = 86_400;
/// The first second of year 0, and the first after year 9999: four digits, no more.
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
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !in_range {
        return None;
    }
    let (nanos, zone) = fraction(rest)?;
    let local = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some((local - zone_offset(zone)?, nanos))
}

/// `2024-05-06T07:08:09Z`. Years outside of 0 to 9999 are clamped.
pub fn format_seconds(seconds: i64) -> String {
    let seconds = seconds.clamp(FIRST, END - 1);
    let (days, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `2024-05-06T07:08:09.123456Z`, cut off after the microsecond.
pub fn format_micros(seconds: i64, nanos: u32) -> String {
    let mut text = format_seconds(seconds);
    text.pop();
    text + &format!(".{:06}Z", nanos.min(999_999_999) / 1000)
}

/// An age in two or three figures, as kubectl shows it: `5s`, `2m30s`, `3h12m`, `5d`, `2y300d`.
pub fn human_duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY);
    let years = days / 365;
    match seconds {
        // A clock may be a second off without anybody's being alarmed.
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

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Both ways count from 0000-03-01, so that the leap day is the last of its year, in eras of 400
// years, all of which are 146,097 days long.

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_parse() {
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
    fn what_is_formatted_parses_back() {
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
