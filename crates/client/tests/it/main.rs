//! Clients of a small server, with proxies in between.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod certificates;
mod proxy;
mod server;
mod proxies;
mod compression;
mod tokens;
