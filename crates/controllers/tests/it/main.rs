//! The built-in controllers against an API server in the same process. Each test has its own server
//! in memory, with a manual clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod plane;
mod crashes;
mod objects;
mod starting;
mod replica_sets;
mod jobs;
mod job_restarts;
mod cron_jobs;
