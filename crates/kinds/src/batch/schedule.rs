//! Schedules in cron's syntax: `*/5 8-18 * * mon-fri`, or `@daily`. They are only validated here;
//! the errors are those of upstream's parser.

use super::time_zone;
use machinery::field_path::quote;
use machinery::go_duration;

/// A field of a schedule: the numbers that it may have, and their names.
struct Field {
    low: u64,
    high: u64,
    /// The names of the numbers from `low` on.
    names: &'static [&'static str],
}

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field {
        low: 1,
        high: 12,
        names: &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    },
    Field { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const DESCRIPTORS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

const EVERY: &str = "@every ";

/// Validates a schedule; the error is upstream's message.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule)?;
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (expected, found) = (FIELDS.len(), fields.len());
        let listed = fields.join(" ");
        return Err(format!("expected exactly {expected} fields, found {found}: [{listed}]"));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        for range in text.split(',').filter(|range| !range.is_empty()) {
            check_range(range, field)?;
        }
    }
    Ok(())
}

/// The schedule without the time zone in front of it.
fn without_zone(schedule: &str) -> Result<&str, String> {
    let zoned = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ="));
    let Some(zoned) = zoned else { return Ok(schedule) };
    let Some((zone, rest)) = zoned.split_once(' ') else {
        // The message of upstream's parser, which panics here.
        let panic_message = "runtime error: slice bounds out of range [:-1]";
        return Err(format!("invalid schedule format: {panic_message}"));
    };
    if !matches!(zone, "" | "Local") && !time_zone::is_known(zone) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok(rest.trim())
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    let Some(duration) = descriptor.strip_prefix(EVERY) else {
        return Err(format!("unrecognized descriptor: {descriptor}"));
    };
    match go_duration::parse(duration) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("failed to parse duration {descriptor}: {why}")),
    }
}

/// `3`, `*`, `1-5`, `*/5`, `1-5/2`; a single number with a step means up to the maximum.
fn check_range(range: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let bounds: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match bounds.as_slice() {
        [] | ["*" | "?", ..] => (field.low, field.high),
        [only] => {
            let number = field.number(only)?;
            (number, number)
        }
        [low, high] => (field.number(low)?, field.number(high)?),
        [low, ..] => {
            field.number(low)?;
            return Err(format!("too many hyphens: {range}"));
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if bounds.len() == 1 {
                end = field.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let (low, high) = (field.low, field.high);
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {range}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

impl Field {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(schedule: &str) {
        assert_eq!(check(schedule), Ok(()), "{schedule}");
    }

    fn refuses(schedule: &str, why: &str) {
        assert_eq!(check(schedule), Err(why.to_owned()), "{schedule}");
    }

    #[test]
    fn every_cron_syntax_is_accepted() {
        accepts("* * * * ?");
        accepts("*/5 8-18/2 1,15 Jan-MAR mon-fri");
        accepts("3/15 0 * * 0");
        accepts("@midnight");
        accepts("@every 1h30.5m");
        accepts("TZ=Europe/Berlin 0 0 * * *");
    }

    #[test]
    fn a_schedule_has_five_fields() {
        refuses("every day", "expected exactly 5 fields, found 2: [every day]");
        refuses("", "expected exactly 5 fields, found 0: []");
    }

    #[test]
    fn invalid_ranges_are_refused() {
        refuses("60 * * * *", "end of range (60) above maximum (59): 60");
        refuses("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        refuses("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1");
        refuses("*/0 * * * *", "step of range should be a positive number: */0");
        refuses("1-2-3 * * * *", "too many hyphens: 1-2-3");
        refuses("1/2/3 * * * *", "too many slashes: 1/2/3");
        refuses(
            "x * * * *",
            r#"failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax"#,
        );
    }

    #[test]
    fn unknown_descriptors_durations_and_zones_are_refused() {
        refuses("@never", "unrecognized descriptor: @never");
        refuses(
            "@every day",
            r#"failed to parse duration @every day: time: invalid duration "day""#,
        );
        refuses(
            "@every 5",
            r#"failed to parse duration @every 5: time: missing unit in duration "5""#,
        );
        refuses("TZ=X/Y * * * * *", "provided bad location X/Y: unknown time zone X/Y");
    }
}
