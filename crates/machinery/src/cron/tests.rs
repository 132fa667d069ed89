//! Schedules that are accepted and refused, and the times that they mean.

use super::*;

fn parse(schedule: &str) -> Result<CronSchedule, String> {
    CronSchedule::parse(schedule, |zone| zone == "Europe/Berlin")
}

fn accepts(schedule: &str) {
    assert!(parse(schedule).is_ok(), "{schedule}");
}

fn refuses(schedule: &str, why: &str) {
    assert_eq!(parse(schedule), Err(why.to_owned()), "{schedule}");
}

/// The zone of Berlin since 1996, in the form of POSIX: the clocks change at 1:00 UTC on the last
/// Sundays of March and October.
const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// Midnight did not exist on the first day of summer time in São Paulo.
const SAO_PAULO: &str = "<-03>3<-02>,M11.1.0/0,M2.3.0/0";

/// The next times after `after`, as the clocks of the zone show them.
fn check(schedule: &str, zone: &str, after: &str, expected: &[&str]) {
    let zone = TimeZone::posix(zone).unwrap();
    let schedule = parse(schedule).unwrap();
    let mut time: Timestamp = after.parse().unwrap();
    let mut found = Vec::new();
    for _ in expected {
        let Some(next) = schedule.next(time, &zone) else {
            found.push("never".to_owned());
            break;
        };
        let offset = zone.to_offset(next);
        found.push(format!("{} {offset}", offset.to_datetime(next).strftime("%m-%d %H:%M:%S")));
        time = next;
    }
    assert_eq!(found, expected, "{schedule:?}");
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
fn the_zone_in_front_of_a_schedule_is_kept() {
    assert_eq!(parse("CRON_TZ=Europe/Berlin @daily").unwrap().zone.unwrap(), "Europe/Berlin");
    assert_eq!(parse("TZ=Local @daily").unwrap().zone, None);
    assert_eq!(parse("@daily").unwrap().zone, None);
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
    refuses("@every day", r#"failed to parse duration @every day: time: invalid duration "day""#);
    refuses("@every 5", r#"failed to parse duration @every 5: time: missing unit in duration "5""#);
    refuses("TZ=X/Y * * * * *", "provided bad location X/Y: unknown time zone X/Y");
}

#[test]
fn fields_restrict_the_times() {
    let after = "2024-01-31T10:07:30Z";
    check("* * * * *", "UTC0", after, &["01-31 10:08:00 +00", "01-31 10:09:00 +00"]);
    check("*/25 10 * * *", "UTC0", after, &["01-31 10:25:00 +00", "01-31 10:50:00 +00"]);
    check("5/20 * * * *", "UTC0", after, &["01-31 10:25:00 +00", "01-31 10:45:00 +00"]);
    check("0 0 31 * *", "UTC0", after, &["03-31 00:00:00 +00", "05-31 00:00:00 +00"]);
    check("0 0 29 feb *", "UTC0", after, &["02-29 00:00:00 +00", "02-29 00:00:00 +00"]);
    check("0 6 * * sat,sun", "UTC0", after, &["02-03 06:00:00 +00", "02-04 06:00:00 +00"]);
    check("@weekly", "UTC0", after, &["02-04 00:00:00 +00"]);
    check("@yearly", "UTC0", after, &["01-01 00:00:00 +00"]);
}

#[test]
fn one_of_two_restricted_fields_of_days_is_enough() {
    let after = "2024-01-01T00:00:00Z";
    let expected = ["01-05 00:00:00 +00", "01-12 00:00:00 +00", "01-13 00:00:00 +00"];
    check("0 0 13 * fri", "UTC0", after, &expected);
    // A step of one restricts nothing, larger ones do.
    check("0 0 13 * */1", "UTC0", after, &["01-13 00:00:00 +00"]);
    check("0 0 13 * */6", "UTC0", after, &["01-06 00:00:00 +00", "01-07 00:00:00 +00"]);
}

#[test]
fn an_impossible_day_never_comes() {
    check("0 0 31 2 *", "UTC0", "2024-01-01T00:00:00Z", &["never"]);
    check(", * * * *", "UTC0", "2024-01-01T00:00:00Z", &["never"]);
}

#[test]
fn intervals_count_from_the_last_time_and_have_whole_seconds() {
    let after = "2024-01-01T00:00:00.7Z";
    check("@every 90s", "UTC0", after, &["01-01 00:01:30 +00", "01-01 00:03:00 +00"]);
    check("@every 1.9s", "UTC0", after, &["01-01 00:00:01 +00"]);
    check("@every 1ms", "UTC0", after, &["01-01 00:00:01 +00"]);
}

#[test]
fn a_time_that_the_clocks_skip_does_not_occur_on_that_day() {
    let after = "2024-03-30T12:00:00Z";
    check("30 2 * * *", BERLIN, after, &["04-01 02:30:00 +02"]);
    check("0 3 * * *", BERLIN, after, &["03-31 03:00:00 +02"]);
    let expected = ["03-31 01:30:00 +01", "03-31 03:30:00 +02"];
    check("30 * * * *", BERLIN, "2024-03-31T00:00:00Z", &expected);
}

#[test]
fn a_time_that_the_clocks_repeat_occurs_twice() {
    let after = "2024-10-26T12:00:00Z";
    let expected = ["10-27 02:30:00 +02", "10-27 02:30:00 +01", "10-28 02:30:00 +01"];
    check("30 2 * * *", BERLIN, after, &expected);
}

#[test]
fn a_day_may_begin_without_midnight() {
    let after = "2018-11-03T12:00:00Z";
    check("0 12 * * *", SAO_PAULO, after, &["11-03 12:00:00 -03", "11-04 12:00:00 -02"]);
    check("0 0 * * *", SAO_PAULO, after, &["11-05 00:00:00 -02"]);
}
