//! Accessors of timestamps and durations: `getHours`, `getDayOfWeek`, …

use super::{EvalResult, Library, no_such_overload};
use crate::error::EvalError;
use crate::time::Civil;
use crate::value::Value;

pub(super) fn declare(library: &mut Library) {
    declare_timestamp_accessor(library, "getFullYear", "year", |args| {
        timestamp_part(args, |it| it.year)
    });
    declare_timestamp_accessor(library, "getMonth", "month", |args| {
        timestamp_part(args, |it| it.month - 1)
    });
    declare_timestamp_accessor(library, "getDayOfYear", "day_of_year", |args| {
        timestamp_part(args, |it| it.day_of_year)
    });
    declare_timestamp_accessor(library, "getDayOfMonth", "day_of_month", |args| {
        timestamp_part(args, |it| it.day - 1)
    });
    declare_timestamp_accessor(library, "getDate", "day_of_month_1_based", |args| {
        timestamp_part(args, |it| it.day)
    });
    declare_timestamp_accessor(library, "getDayOfWeek", "day_of_week", |args| {
        timestamp_part(args, |it| it.day_of_week)
    });
    declare_timestamp_accessor(library, "getHours", "hours", |args| {
        timestamp_part(args, |it| it.hour)
    });
    declare_timestamp_accessor(library, "getMinutes", "minutes", |args| {
        timestamp_part(args, |it| it.minute)
    });
    declare_timestamp_accessor(library, "getSeconds", "seconds", |args| {
        timestamp_part(args, |it| it.second)
    });
    declare_timestamp_accessor(library, "getMilliseconds", "milliseconds", |args| {
        let milliseconds = match &args[0] {
            Value::Timestamp(at) => i64::from(at.nanoseconds / 1_000_000),
            _ => return no_such_overload(),
        };
        timestamp_part(args, |_| 0).map(|_| Value::Int(milliseconds))
    });
    declare_duration_accessor(library, "getHours", "duration_to_hours", |args| {
        duration_in_units(args, 3_600_000_000_000)
    });
    declare_duration_accessor(library, "getMinutes", "duration_to_minutes", |args| {
        duration_in_units(args, 60_000_000_000)
    });
    declare_duration_accessor(library, "getSeconds", "duration_to_seconds", |args| {
        duration_in_units(args, 1_000_000_000)
    });
    declare_duration_accessor(library, "getMilliseconds", "duration_to_milliseconds", |args| {
        duration_in_units(args, 1_000_000)
    });
}

fn declare_timestamp_accessor(
    library: &mut Library,
    function: &'static str,
    what: &str,
    run: super::Plain,
) {
    library.add(function, &format!("timestamp_to_{what}"), "timestamp.() -> int", run);
    let id = format!("timestamp_to_{what}_with_tz");
    library.add(function, &id, "timestamp.(string) -> int", run);
}

fn declare_duration_accessor(
    library: &mut Library,
    function: &'static str,
    id: &str,
    run: super::Plain,
) {
    library.add(function, id, "duration.() -> int", run);
}

fn timestamp_part<'a>(args: &mut [Value<'a>], pick: fn(Civil) -> i64) -> EvalResult<'a> {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Int(pick(at.civil(0)))),
        [Value::Timestamp(at), Value::String(zone)] => {
            Ok(Value::Int(pick(at.civil(offset(zone)?))))
        }
        _ => no_such_overload(),
    }
}

fn duration_in_units<'a>(args: &mut [Value<'a>], unit: i64) -> EvalResult<'a> {
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
