//! The whole program, from outside: real processes, real sockets, real clients.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may stop at the first surprise, and says what it skips"
)]

#[path = "../../../apiserver/tests/it/https.rs"]
mod https;
mod http;
mod plane;
mod command_line;
mod crash;
mod hostile;
mod kubectl;
mod recorded;
mod oracle;
mod definitions;
