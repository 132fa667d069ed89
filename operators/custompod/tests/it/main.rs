//! The operator against a server in the same process, with the rights of its service account.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../../crates/informer/tests/it/seeded.rs"]
mod seeded;
mod installation;
mod user_roles;
mod observer;
mod world;
mod crds;
mod scaling;
mod lifecycle;
mod leaders;
mod events;
mod random_walk;
