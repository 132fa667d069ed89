//! The operator against a server in the same process, with the rights of its service account.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../../crates/informer/tests/it/seeded.rs"]
mod seeded;
#[path = "../../../custompod/tests/it/installation.rs"]
mod installation;
#[path = "../../../custompod/tests/it/user_roles.rs"]
mod user_roles;
mod world;
mod crds;
mod shaping;
mod lifecycle;
mod leaders;
mod random_walk;
