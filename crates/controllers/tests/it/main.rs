//! The built-in controllers against an API server in the same process. Each test has its own server
//! in memory, with a manual clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod crash;
mod plane;
mod objects;
mod starting;
mod fake_node;
mod replica_sets;
mod stateful_sets;
mod daemon_sets;
