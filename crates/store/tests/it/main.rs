//! Tests of durable stores: crashes, full disks, failed fsyncs, damaged files.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::panic, reason = "a test fails by a panic")]
#![allow(clippy::print_stderr, reason = "a test reports that it is skipped")]

mod simulated_disk;
mod watched_events;
mod crashes;
mod failing_disk;
mod logged_causes;
mod full_disk;
mod space_reserve;
mod damage;
mod damaged_log;
mod missing_database;
mod older_format;
mod quota;
mod real_clock;
