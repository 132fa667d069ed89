//! Accessors of timestamps and durations: `getHours`, `getDayOfWeek`, …

use super::{EvalResult, Library, no_such_overload};
use crate::error::EvalError;
use crate::time::Civil;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    accessor(library, "getFullYear", "year", |args| part(args, |it| it.year));
    accessor(library, "getMonth", "month", |args| part(args, |it| it.month - 1));
    accessor(library, "getDayOfYear", "day_of_year", |args| part(args, |it| it.day_of_year));
    accessor(library, "getDayOfMonth", "day_of_month", |args| part(args, |it| it.day - 1));
    accessor(library, "getDate", "day_of_month_1_based", |args| part(args, |it| it.day));
    accessor(library, "getDayOfWeek", "day_of_week", |args| part(args, |it| it.day_of_week));
    accessor(library, "getHours", "hours", |args| part(args, |it| it.hour));
    accessor(library, "getMinutes", "minutes", |args| part(args, |it| it.minute));
    accessor(library, "getSeconds", "seconds", |args| part(args, |it| it.second));
    accessor(library, "getMilliseconds", "milliseconds", |args| {
        let milliseconds = match &args[0] {
            Value::Timestamp(at) => i64::from(at.nanoseconds / 1_000_000),
            _ => return no_such_overload(),
        };
        part(args, |_| 0).map(|_| Value::Int(milliseconds))
    });
    span(library, "getHours", "duration_to_hours", |args| divided(args, 3_600_000_000_000));
    span(library, "getMinutes", "duration_to_minutes", |args| divided(args, 60_000_000_000));
    span(library, "getSeconds", "duration_to_seconds", |args| divided(args, 1_000_000_000));
    span(library, "getMilliseconds", "duration_to_milliseconds", |args| divided(args, 1_000_000));
}

fn accessor(library: &mut Library, function: &'static str, what: &str, run: super::Plain) {
    library.add(function, &format!("timestamp_to_{what}"), "timestamp.() -> int", run);
    let id = format!("timestamp_to_{what}_with_tz");
    library.add(function, &id, "timestamp.(string) -> int", run);
}

fn span(library: &mut Library, function: &'static str, id: &str, run: super::Plain) {
    library.add(function, id, "duration.() -> int", run);
}

fn part<'a>(args: &mut [Value<'a>], pick: fn(Civil) -> i64) -> EvalResult<'a> {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Int(pick(at.civil(0)))),
        [Value::Timestamp(at), Value::String(zone)] => {
            Ok(Value::Int(pick(at.civil(offset(zone)?))))
        }
        _ => no_such_overload(),
    }
}

fn divided<'a>(args: &mut [Value<'a>], unit: i64) -> EvalResult<'a> {
    match args {
        [Value::Duration(span)] => Ok(Value::Int(span.nanoseconds / unit)),
        _ => no_such_overload(),
    }
}

/// The offset from UTC in seconds. Only `UTC` and numeric offsets are supported: other names would
/// require a time zone database.
fn offset(zone: &str) -> Result<i64, EvalError> {
    let Some((hours, minutes)) = zone.split_once(':') else {
        return match zone {
            "" | "UTC" | "Local" => Ok(0),
            _ => Err(format!("unknown time zone {zone}").into()),
        };
    };
    let number = |digits: &str| -> Result<i64, EvalError> {
        let wrong = || format!("strconv.Atoi: parsing {digits:?}: invalid syntax").into();
        digits.parse::<i32>().map(i64::from).map_err(|_| wrong())
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    if !(0..=59).contains(&minutes) {
        return Err(format!("timezone offset minutes out of range [0, 59]: {zone}").into());
    }
    let minutes = if zone.starts_with('-') { -minutes } else { minutes };
    Ok((hours * 60 + minutes) * 60)
}
