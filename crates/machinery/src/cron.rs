//! [`CronSchedule`]: schedules in cron's syntax, `*/5 8-18 * * mon-fri`, `@daily` or `@every 90m`.
//!
//! The syntax, its errors, and the times around a change of the clocks are those of the Go library
//! robfig/cron, which Kubernetes uses.
//!
//! ```
//! use jiff::{Timestamp, tz::TimeZone};
//! use machinery::cron::CronSchedule;
//!
//! let schedule = CronSchedule::parse("30 8 * * mon-fri", |_| false)?;
//! let friday: Timestamp = "2024-01-05T08:30:00Z".parse().unwrap();
//! let next = schedule.next(friday, &TimeZone::UTC).unwrap();
//! assert_eq!(next.to_string(), "2024-01-08T08:30:00Z");
//!
//! let refused = CronSchedule::parse("60 * * * *", |_| false).unwrap_err();
//! assert_eq!(refused, "end of range (60) above maximum (59): 60");
//! # Ok::<(), String>(())
//! ```

mod field;
mod next;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::go_duration;
use field::{DAYS, HOURS, MINUTES, MONTHS, WEEKDAYS};

const EVERY: &str = "@every ";

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    /// The time zone in front of the schedule, as in `TZ=Asia/Tokyo 0 4 * * *`. It is empty for the
    /// zone of the process.
    pub zone: Option<String>,
    times: Times,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Times {
    /// An interval in seconds; at least one.
    Every(i64),
    Fields(Fields),
}

/// The times that match all fields. Bit `n` of a field is set if it contains the number `n`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fields {
    minute: u64,
    hour: u64,
    /// The day of the month.
    day: u64,
    month: u64,
    /// The day of the week; Sunday is 0.
    weekday: u64,
}

impl CronSchedule {
    /// Parses a schedule. `is_zone` tells whether a time zone exists.
    pub fn parse(text: &str, is_zone: impl Fn(&str) -> bool) -> Result<Self, String> {
        let (zone, schedule) = split_zone(text, is_zone)?;
        let times = if schedule.starts_with('@') {
            parse_descriptor(schedule)?
        } else {
            Times::Fields(parse_fields(schedule)?)
        };
        Ok(Self { zone: zone.map(ToOwned::to_owned), times })
    }

    /// The first scheduled time after `after`, in the time zone `zone`; `None` if there is none
    /// within five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.times {
            Times::Every(seconds) => {
                Timestamp::from_second(after.as_second().checked_add(*seconds)?).ok()
            }
            Times::Fields(fields) => next::next(fields, after, zone),
        }
    }
}

/// The time zone in front of a schedule, and the schedule without it.
fn split_zone(text: &str, is_zone: impl Fn(&str) -> bool) -> Result<(Option<&str>, &str), String> {
    let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
    let Some(zoned) = zoned else { return Ok((None, text)) };
    let Some((zone, rest)) = zoned.split_once(' ') else {
        // The message of upstream's parser, which panics here.
        let panic_message = "runtime error: slice bounds out of range [:-1]";
        return Err(format!("invalid schedule format: {panic_message}"));
    };
    if !matches!(zone, "" | "Local") && !is_zone(zone) {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok((Some(zone).filter(|it| *it != "Local"), rest.trim()))
}

fn parse_descriptor(descriptor: &str) -> Result<Times, String> {
    let fields = match descriptor {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = descriptor.strip_prefix(EVERY) else {
                return Err(format!("unrecognized descriptor: {descriptor}"));
            };
            let seconds = go_duration::parse(duration)
                .map_err(|why| format!("failed to parse duration {descriptor}: {why}"))?;
            #[allow(clippy::cast_possible_truncation, reason = "parts of a second are dropped")]
            return Ok(Times::Every((seconds as i64).max(1)));
        }
    };
    parse_fields(fields).map(Times::Fields)
}

fn parse_fields(schedule: &str) -> Result<Fields, String> {
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        let (found, listed) = (fields.len(), fields.join(" "));
        return Err(format!("expected exactly 5 fields, found {found}: [{listed}]"));
    };
    Ok(Fields {
        minute: MINUTES.parse(minute)?,
        hour: HOURS.parse(hour)?,
        day: DAYS.parse(day)?,
        month: MONTHS.parse(month)?,
        weekday: WEEKDAYS.parse(weekday)?,
    })
}

#[cfg(test)]
mod tests;
