//! The kinds of the group `batch`: work that comes to an end.

pub mod job;
pub mod cron_job;
mod schedule;
mod time_zone;
