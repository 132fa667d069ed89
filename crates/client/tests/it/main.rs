//! Clients of a small server, with proxies in between.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod certificates;
mod proxy;
mod server;
mod routes;
mod packing;
mod tokens;
