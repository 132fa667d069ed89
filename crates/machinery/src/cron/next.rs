//! The next time that matches the fields of a schedule.
//!
//! Months and days are advanced on the calendar of the zone, hours and minutes in elapsed time. So
//! a time that the clocks skip in spring does not occur on that day, and one that they repeat in
//! autumn occurs twice if its hour matches.
//!
//! Upstream: robfig/cron `spec.go` `SpecSchedule.Next`

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::Fields;
use super::field::STAR;

/// A search ends after this number of years.
const MAX_YEARS: i16 = 5;

/// A point in time, and what the clocks of a zone show.
struct Moment<'a> {
    at: Timestamp,
    local: DateTime,
    zone: &'a TimeZone,
}

/// The first time after `after` that matches all fields.
pub(super) fn next(fields: &Fields, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let mut moment = Moment::at(Timestamp::from_second(after.as_second() + 1).ok()?, zone);
    let last_year = moment.local.year().saturating_add(MAX_YEARS);
    // Whether the parts below the present field are at their lowest values.
    let mut is_reset = false;
    loop {
        if moment.local.year() > last_year {
            return None;
        }
        let found = advance_month(fields, &mut moment, &mut is_reset)?
            && advance_day(fields, &mut moment, &mut is_reset)?
            && advance_hour(fields, &mut moment, &mut is_reset)?
            && advance_minute(fields, &mut moment, &mut is_reset)?;
        if found && moment.local.second() == 0 {
            return Some(moment.at);
        }
        if found {
            is_reset = true;
            moment.add(SignedDuration::from_secs(60 - i64::from(moment.local.second())))?;
        }
    }
}

/// Advances to a month that matches. Returns false if another year began; `None` if the time
/// cannot be represented.
fn advance_month(fields: &Fields, moment: &mut Moment<'_>, is_reset: &mut bool) -> Option<bool> {
    while !has(fields.month, moment.local.month()) {
        if !*is_reset {
            *is_reset = true;
            moment.set_local(moment.local.date().first_of_month(), Time::midnight())?;
        }
        let date = moment.local.date();
        // As Go, which counts days that the month does not have into the next one.
        let first = date.first_of_month().checked_add(jiff::Span::new().months(1)).ok()?;
        let date = first.checked_add(jiff::Span::new().days(date.day() - 1)).ok()?;
        moment.set_local(date, moment.local.time())?;
        if moment.local.month() == 1 {
            return Some(false);
        }
    }
    Some(true)
}

/// Advances to a day that matches. Returns false if another month began.
fn advance_day(fields: &Fields, moment: &mut Moment<'_>, is_reset: &mut bool) -> Option<bool> {
    while !fields.matches_day(moment.local.date()) {
        if !*is_reset {
            *is_reset = true;
            moment.set_local(moment.local.date(), Time::midnight())?;
        }
        let tomorrow = moment.local.date().checked_add(jiff::Span::new().days(1)).ok()?;
        moment.set_local(tomorrow, moment.local.time())?;
        // Midnight may not exist on a day on which the clocks change.
        match moment.local.hour() {
            0 => {}
            hour if hour > 12 => moment.add(SignedDuration::from_hours(i64::from(24 - hour)))?,
            hour => moment.add(SignedDuration::from_hours(-i64::from(hour)))?,
        }
        if moment.local.day() == 1 {
            return Some(false);
        }
    }
    Some(true)
}

/// Advances to an hour that matches. Returns false if another day began.
fn advance_hour(fields: &Fields, moment: &mut Moment<'_>, is_reset: &mut bool) -> Option<bool> {
    while !has(fields.hour, moment.local.hour()) {
        if !*is_reset {
            *is_reset = true;
            let hour = Time::new(moment.local.hour(), 0, 0, 0).ok()?;
            moment.set_local(moment.local.date(), hour)?;
        }
        moment.add(SignedDuration::from_hours(1))?;
        if moment.local.hour() == 0 {
            return Some(false);
        }
    }
    Some(true)
}

/// Advances to a minute that matches. Returns false if another hour began.
fn advance_minute(fields: &Fields, moment: &mut Moment<'_>, is_reset: &mut bool) -> Option<bool> {
    while !has(fields.minute, moment.local.minute()) {
        if !*is_reset {
            *is_reset = true;
            let second = moment.at.as_second();
            moment.add(SignedDuration::from_secs(-second.rem_euclid(60)))?;
        }
        moment.add(SignedDuration::from_mins(1))?;
        if moment.local.minute() == 0 {
            return Some(false);
        }
    }
    Some(true)
}

impl Fields {
    /// If both fields of days are restricted, one of them must match.
    fn matches_day(&self, date: Date) -> bool {
        let day = has(self.day, date.day());
        let weekday = has(self.weekday, date.weekday().to_sunday_zero_offset());
        if (self.day | self.weekday) & STAR != 0 { day && weekday } else { day || weekday }
    }
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| bits & (1 << number) != 0)
}

impl<'a> Moment<'a> {
    fn at(at: Timestamp, zone: &'a TimeZone) -> Self {
        Self { at, local: zone.to_datetime(at), zone }
    }

    /// Adds elapsed time.
    fn add(&mut self, duration: SignedDuration) -> Option<()> {
        *self = Self::at(self.at.checked_add(duration).ok()?, self.zone);
        Some(())
    }

    /// Goes to the time at which the clocks show `date` and `time`. If they do so twice or never,
    /// the time is that of Go's `time.Date`.
    fn set_local(&mut self, date: Date, time: Time) -> Option<()> {
        let as_utc = Offset::UTC.to_timestamp(date.to_datetime(time)).ok()?;
        let offset = self.zone.to_offset(as_utc);
        let mut at = as_utc;
        if offset != Offset::UTC {
            let guess = minus(as_utc, offset)?;
            at = minus(as_utc, self.zone.to_offset(guess))?;
        }
        *self = Self::at(at, self.zone);
        Some(())
    }
}

fn minus(at: Timestamp, offset: Offset) -> Option<Timestamp> {
    at.checked_sub(SignedDuration::from_secs(i64::from(offset.seconds()))).ok()
}
