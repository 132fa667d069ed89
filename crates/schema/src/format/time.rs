//! Dates, times and durations.

/// `2006-01-02`, and a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| {
        text.get(range).filter(|it| it.bytes().all(|b| b.is_ascii_digit()))?.parse::<i16>().ok()
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let (Ok(month), Ok(day)) = (i8::try_from(month), i8::try_from(day)) else { return false };
    text.len() == 10
        && text.as_bytes()[4] == b'-'
        && text.as_bytes()[7] == b'-'
        && jiff::civil::Date::new(year, month, day).is_ok()
}

/// `2006-01-02T15:04:05.000Z`, in either case, with a zone.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// `15:04:05`, an optional fraction, and `z` or `+07:00`. As upstream's regular expression, any
/// character may separate the fraction.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let is_pair = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let is_clock = clock.split(':').count() == 3
        && clock.split(':').zip(["23", "59", "59"]).all(|(it, max)| is_pair(it) && it <= max);
    let is_offset = |text: &str| {
        text.strip_prefix(['+', '-'])
            .and_then(|it| it.split_once(':'))
            .is_some_and(|(hours, minutes)| is_pair(hours) && is_pair(minutes))
    };
    let is_zone = |text: &str| text == "z" || is_offset(text);
    let mut signs = rest.chars();
    signs.next();
    let after_digits = signs.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    let has_fraction = after_digits.len() < signs.as_str().len();
    is_clock && (is_zone(rest) || has_fraction && is_zone(after_digits))
}

/// A duration of Go (`1h30m`), or the looser form of go-openapi's `strfmt` (`3 weeks`).
pub(super) fn is_duration(text: &str) -> bool {
    machinery::go_duration::parse(text).is_ok() || is_loose_duration(text)
}

/// As upstream, a number and a unit anywhere in the text suffice.
fn is_loose_duration(text: &str) -> bool {
    const UNITS: [&str; 11] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const STEMS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        let after = rest[start..].trim_start_matches(is_digit).trim_start();
        let end = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let unit = after[..end].to_lowercase();
        if UNITS.contains(&unit.as_str()) || STEMS.iter().any(|stem| unit.starts_with(stem)) {
            return true;
        }
        rest = after;
    }
    false
}
