//! Durations as Go writes them: `1h30m`, `-1.5s`, `100ms`.

use std::time::Duration;

use crate::field_path::quote;

/// The nanoseconds of a unit.
fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// Parses a duration into seconds, with the errors of Go's `time.ParseDuration`.
///
/// ```
/// use machinery::go_duration;
/// assert_eq!(go_duration::parse("1m30s"), Ok(90.0));
/// assert_eq!(go_duration::parse("5"), Err("time: missing unit in duration \"5\"".to_owned()));
/// ```
pub fn parse(text: &str) -> Result<f64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0.0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        // A whole part of more than 19 digits overflows Go's int64.
        let is_huge = number.split('.').next().is_some_and(|it| it.len() > 19);
        let number: f64 = number.parse().ok().filter(|_| !is_huge).ok_or_else(invalid)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        if name.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let Some(unit) = unit(name) else {
            let (name, whole) = (quote(name), quote(text));
            return Err(format!("time: unknown unit {name} in duration {whole}"));
        };
        nanoseconds += number * unit;
        rest = after;
    }
    // Go's Duration is an int64 of nanoseconds.
    if nanoseconds >= 9_223_372_036_854_775_807.0 {
        return Err(invalid());
    }
    let seconds = nanoseconds / 1e9;
    Ok(if text.starts_with('-') { -seconds } else { seconds })
}

/// Parses a duration that is not negative.
///
/// ```
/// use std::time::Duration;
///
/// use machinery::go_duration;
/// assert_eq!(go_duration::parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(go_duration::parse_duration("-1s").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = parse(text)?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| format!("the duration {} is negative", quote(text)))
}

/// Formats a duration as Go's `Duration.String` does.
///
/// ```
/// use std::time::Duration;
///
/// use machinery::go_duration;
/// assert_eq!(go_duration::format(Duration::from_secs(90)), "1m30s");
/// ```
pub fn format(duration: Duration) -> String {
    let (nanoseconds, seconds) = (duration.as_nanos(), duration.as_secs());
    match nanoseconds {
        0 => return "0s".to_owned(),
        1..1_000 => return format!("{nanoseconds}ns"),
        1_000..1_000_000 => return format!("{}µs", in_unit(nanoseconds, 1_000)),
        1_000_000..1_000_000_000 => return format!("{}ms", in_unit(nanoseconds, 1_000_000)),
        _ => {}
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = in_unit(nanoseconds % 60_000_000_000, 1_000_000_000);
    match seconds {
        0..60 => format!("{rest}s"),
        60..3600 => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

/// The shortest decimal form of a number of nanoseconds in a unit.
fn in_unit(nanoseconds: u128, unit: u128) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", nanoseconds / unit, nanoseconds % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_as_in_go() {
        for text in
            ["0s", "5ns", "1.5µs", "20ms", "1s", "1.25s", "1m0s", "31s", "1h0m2s", "100h0m0.5s"]
        {
            assert_eq!(parse_duration(text).map(format).as_deref(), Ok(text));
        }
        let negative = Err("the duration \"-1s\" is negative".to_owned());
        assert_eq!(parse_duration("-1s"), negative);
    }

    #[test]
    fn a_duration_is_the_sum_of_its_parts() {
        assert_eq!(parse("1h1m1.5s"), Ok(3661.5));
        assert_eq!(parse("-.5s"), Ok(-0.5));
        assert_eq!(parse("+0"), Ok(0.0));
        assert_eq!(parse("1500ms"), Ok(1.5));
    }

    #[test]
    fn invalid_durations_are_refused_in_the_words_of_go() {
        for text in ["", "x", "-", ".s", "1.2.3s", " 1", "9223372037s"] {
            assert_eq!(parse(text), Err(format!("time: invalid duration \"{text}\"")));
        }
        assert_eq!(parse("1.5"), Err("time: missing unit in duration \"1.5\"".to_owned()));
        let unknown = "time: unknown unit \"x\" in duration \"0x10\"".to_owned();
        assert_eq!(parse("0x10"), Err(unknown));
    }
}
