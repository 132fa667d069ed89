//! Informers against a simulated API server, in simulated time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

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
