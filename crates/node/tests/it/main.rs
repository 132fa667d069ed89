//! Simulated nodes against an API server in the same process. Each test has its own server in memory,
//! with a manual clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod plane;
mod interference;
mod nodes;
mod pods;
mod pod_commands;
mod pod_config;
mod pod_admission;
mod pod_resize;
mod pod_events;
mod stages;
mod stage_steps;
mod failure;
mod idle;
