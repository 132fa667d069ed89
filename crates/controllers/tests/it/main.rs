//! The built-in controllers against an API server in the same process. Each test has its own server
//! in memory, with a manual clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod certificates;
mod endpoint_pods;
mod endpoint_slices;
mod endpoints;
mod plane;
mod service_accounts;
mod starting;
