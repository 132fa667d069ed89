//! The operator against a server in the same process: with networks in memory, in a real Neutron, and
//! on this machine.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../../../custompod/tests/it/installation.rs"]
mod installation;
mod world;
mod faulty;
mod lifecycle;
mod troubles;
mod leaders;
mod installed;
mod walk;
mod skipped;
mod neutron_server;
mod neutron;
mod keystone_server;
mod keystone;
mod projects;
mod program;
#[cfg(target_os = "linux")]
mod linux;
