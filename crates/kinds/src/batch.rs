//! The kinds of the group `batch`: pods that run to completion, once or on a schedule.

pub mod job;
pub mod cron_job;
mod time_zone;
