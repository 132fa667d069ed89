//! [`Timetable`]: the scheduled times of a `CronJob`, and which of them is due.
//!
//! Upstream: `cronjob/utils.go`

use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::view::CronJobView;
use machinery::cron::CronSchedule;
use runtime::Action;

/// A reconcile takes place this long after a scheduled time, since clocks differ.
const DELAY: SignedDuration = SignedDuration::from_millis(100);

/// More missed times than this are reported.
const MANY_MISSED: i64 = 100;

/// The time zones of the IANA database, which is part of the program.
pub(super) struct Zones(TimeZoneDatabase);

impl Default for Zones {
    fn default() -> Self {
        Self(TimeZoneDatabase::bundled())
    }
}

impl Zones {
    /// The zone with this name.
    pub(super) fn get(&self, name: &str) -> Option<TimeZone> {
        if name.is_empty() { Some(TimeZone::UTC) } else { self.0.get(name).ok() }
    }
}

/// See the [module documentation](self).
pub(super) struct Timetable {
    schedule: CronSchedule,
    zone: TimeZone,
    /// The zone of the annotations of Jobs.
    shown_zone: TimeZone,
}

/// A scheduled time for which there is no Job yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The scheduled time.
    pub time: Timestamp,
    /// The number of scheduled times that were missed before.
    pub missed: MissedTimes,
}

/// The number of missed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissedTimes {
    None,
    Few,
    Many,
}

/// The times between the last Job, or a later time, and now.
struct Window {
    start: Timestamp,
    /// The last scheduled time in the window.
    last: Option<Timestamp>,
    missed: MissedTimes,
}

impl Timetable {
    /// Parses a schedule in a time zone.
    pub(super) fn parse(schedule: &str, zone: Option<&str>, zones: &Zones) -> Result<Self, String> {
        let schedule = CronSchedule::parse(schedule, |name| zones.get(name).is_some())?;
        let shown_zone = zone.and_then(|name| zones.get(name)).unwrap_or(TimeZone::UTC);
        let zone = match &schedule.zone {
            Some(name) => zones.get(name).unwrap_or(TimeZone::UTC),
            None => shown_zone.clone(),
        };
        Ok(Self { schedule, zone, shown_zone })
    }

    /// The last scheduled time for which there is no Job, if it is not before the starting deadline.
    pub(super) fn due(
        &self,
        cron_job: &CronJobView,
        now: keel::Timestamp,
    ) -> Result<Option<Due>, &'static str> {
        let now = to_jiff(now);
        let mut start = window_start(cron_job, cron_job.status.last_schedule_time.as_ref());
        if let Some(deadline) = cron_job.spec.starting_deadline_seconds {
            let earliest = now.checked_sub(SignedDuration::from_secs(deadline));
            start = earliest.map_or(start, |earliest| start.max(earliest));
        }
        let window = self.window(start, now)?;
        Ok(window.last.map(|time| Due { time, missed: window.missed }))
    }

    /// Requeues a `CronJob` for its next scheduled time; `last` is the time of its last Job.
    pub(super) fn requeue_after(
        &self,
        cron_job: &CronJobView,
        last: Option<&Time>,
        now: keel::Timestamp,
    ) -> Action {
        let now = to_jiff(now);
        let from = match self.window(window_start(cron_job, last), now) {
            Ok(Window { last: Some(last), .. }) => last,
            Ok(Window { start, missed: MissedTimes::None, .. }) => start,
            _ => now,
        };
        let Some(next) = self.schedule.next(from, &self.zone) else { return Action::Done };
        let delay = next.duration_since(now) + DELAY;
        Action::RequeueAfter(Duration::try_from(delay).unwrap_or_default())
    }

    /// The scheduled times since `start`.
    fn window(&self, start: Timestamp, now: Timestamp) -> Result<Window, &'static str> {
        let too_close = "time difference between two schedules is less than 1 second";
        let next = |after| self.schedule.next(after, &self.zone);
        let Some(first) = next(start) else { return Err(too_close) };
        if now < first {
            return Ok(Window { start, last: None, missed: MissedTimes::None });
        }
        let second = next(first).filter(|second| *second > first).ok_or(too_close)?;
        if now < second {
            return Ok(Window { start, last: Some(first), missed: MissedTimes::None });
        }
        // An estimate, which is exact for regular schedules: not all missed times are visited.
        let interval = second.as_second() - first.as_second();
        let missed = now.duration_since(first).as_secs() / interval + 1;
        let skipped = SignedDuration::from_secs((missed - 2).saturating_mul(interval));
        let mut last = None;
        let mut time = first.checked_add(skipped).ok().and_then(next);
        while let Some(found) = time.filter(|time| *time <= now) {
            last = Some(found);
            time = next(found);
        }
        let missed = if missed > MANY_MISSED { MissedTimes::Many } else { MissedTimes::Few };
        Ok(Window { start, last, missed })
    }

    /// A time as the annotation of a Job has it.
    pub(super) fn rfc3339(&self, time: Timestamp) -> String {
        let offset = self.shown_zone.to_offset(time);
        if offset.is_zero() {
            return time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        }
        time.to_zoned(self.shown_zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }
}

impl Due {
    /// Whether the deadline for the start has passed.
    pub(super) fn is_too_late(&self, deadline: Option<i64>, now: keel::Timestamp) -> bool {
        let last = deadline.map(|it| self.time.checked_add(SignedDuration::from_secs(it)));
        last.is_some_and(|last| last.is_ok_and(|last| last < to_jiff(now)))
    }

    /// Whether the scheduled time is later than another time.
    pub(super) fn is_after(&self, time: keel::Timestamp) -> bool {
        self.time > to_jiff(time)
    }

    /// The time as events show it.
    pub(super) fn rfc1123(&self) -> String {
        self.time.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
    }
}

/// The time since which scheduled times count.
fn window_start(cron_job: &CronJobView, last: Option<&Time>) -> Timestamp {
    let start = last.or(cron_job.metadata.creation_timestamp.as_ref());
    start.map(|it| it.0).unwrap_or_default()
}

fn to_jiff(time: keel::Timestamp) -> Timestamp {
    let nanos = i32::try_from(time.nanos()).unwrap_or(0);
    Timestamp::new(time.seconds(), nanos).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A `CronJob` that was created, or had its last Job, on 2024-01-01 at this time.
    fn cron_job(last: &str, deadline: Option<i64>) -> CronJobView {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": format!("2024-01-01T{last}Z")},
            "spec": {"schedule": "", "startingDeadlineSeconds": deadline,
                "jobTemplate": {"spec": {}}},
        }))
        .unwrap()
    }

    fn now(time: &str) -> keel::Timestamp {
        let time: Timestamp = format!("2024-01-01T{time}Z").parse().unwrap();
        keel::Timestamp::from_seconds(time.as_second())
    }

    /// The time that is due and the missed ones, and the time of the next reconcile.
    fn check(schedule: &str, last: &str, deadline: Option<i64>, at: &str, expected: (&str, &str)) {
        let timetable = Timetable::parse(schedule, None, &Zones::default()).unwrap();
        let cron_job = cron_job(last, deadline);
        let due = match timetable.due(&cron_job, now(at)) {
            Ok(Some(due)) => format!("{} {:?}", due.time.strftime("%H:%M:%S"), due.missed),
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_owned(),
        };
        let next = match timetable.requeue_after(&cron_job, None, now(at)) {
            Action::RequeueAfter(delay) => {
                let next = to_jiff(now(at) + delay);
                next.strftime("%d %H:%M:%S%.f").to_string()
            }
            action => format!("{action:?}"),
        };
        assert_eq!((due.as_str(), next.as_str()), expected);
    }

    #[test]
    fn nothing_is_due_before_the_first_time() {
        check("0 * * * *", "10:00:00", None, "10:59:59", ("none", "01 11:00:00.1"));
    }

    #[test]
    fn the_last_of_the_missed_times_is_due() {
        check("0 * * * *", "10:00:00", None, "11:00:00", ("11:00:00 None", "01 12:00:00.1"));
        check("0 * * * *", "10:00:00", None, "13:30:00", ("13:00:00 Few", "01 14:00:00.1"));
        check("* * * * *", "00:00:00", None, "10:00:30", ("10:00:00 Many", "01 10:01:00.1"));
        check("30 6-16/4 * * *", "00:00:00", None, "15:00:00", ("14:30:00 Few", "02 06:30:00.1"));
        check("@every 7m", "00:00:00", None, "00:30:00", ("00:28:00 Few", "01 00:35:00.1"));
    }

    #[test]
    fn times_before_the_deadline_do_not_count_as_missed() {
        let expected = ("10:00:00 Few", "01 10:01:00.1");
        check("* * * * *", "00:00:00", Some(120), "10:00:30", expected);
        check("0 * * * *", "10:00:00", Some(60), "13:30:00", ("none", "01 14:00:00.1"));
    }

    #[test]
    fn a_schedule_without_times_is_invalid() {
        let error = "time difference between two schedules is less than 1 second";
        check("0 0 31 2 *", "00:00:00", None, "10:00:00", (error, "Done"));
    }

    #[test]
    fn times_are_shown_in_the_zone_of_the_cron_job() {
        let zones = Zones::default();
        let text_in = |zone: Option<&str>| {
            let timetable = Timetable::parse("30 8 * * *", zone, &zones).unwrap();
            let due = timetable.due(&cron_job("00:00:00", None), now("23:59:00")).unwrap();
            timetable.rfc3339(due.unwrap().time)
        };
        assert_eq!(text_in(None), "2024-01-01T08:30:00Z");
        assert_eq!(text_in(Some("Etc/UTC")), "2024-01-01T08:30:00Z");
        assert_eq!(text_in(Some("Asia/Tokyo")), "2024-01-02T08:30:00+09:00");
        assert_eq!(text_in(Some("America/New_York")), "2024-01-01T08:30:00-05:00");
    }

    #[test]
    fn a_missed_time_is_shown_as_in_kubernetes() {
        let due = Due { time: "2024-01-01T08:30:00Z".parse().unwrap(), missed: MissedTimes::None };
        assert_eq!(due.rfc1123(), "Mon, 01 Jan 2024 08:30:00 +0000");
        assert!(!due.is_too_late(Some(60), now("08:31:00")));
        assert!(due.is_too_late(Some(60), now("08:31:01")));
        assert!(!due.is_too_late(None, now("23:31:01")));
    }
}
