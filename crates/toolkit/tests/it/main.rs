//! The commands, as a user calls them.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod command_line;
mod golden;
mod generate;
mod refusals;
mod building;
mod crd_comparison;
mod corpus;
mod programs;
mod image;
mod push;
mod doctor;
