//! The operator against a server in the same process, with exactly the rights of its service account.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod world;
mod requests;
mod injecting;
mod configuring;
mod stopping;
mod leading;
mod deploying;
mod rights;
mod envoy;
mod kubectl;
