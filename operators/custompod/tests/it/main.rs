//! The operator against a server in the same process.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../src/controller.rs"]
mod controller;
#[path = "../../../../crates/informer/tests/it/seeded.rs"]
mod seeded;
mod observer;
mod random_walk;
mod scaling;
mod world;
