//! Informers against a simulated API server, in simulated time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod seeded;
mod server;
mod recorder;
mod world;
mod faults;
mod standalone_reflector;
mod reflecting;
mod handling;
mod factory;
mod real_clock;
