//! Tests of the real binary: processes, sockets and clients.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by a panic, and prints what it skips"
)]

#[path = "../../../apiserver/tests/it/https.rs"]
#[allow(dead_code, reason = "these tests start one of its kinds of servers")]
mod https;
mod http;
mod plane;
mod operator;
mod audit;
mod certificates;
mod command_line;
mod crash;
mod encryption;
mod hostile;
mod kubectl;
mod users;
mod recorded;
mod oracle;
mod crds;
