//! The runtime against an API server in the same process, with simulated faults. Each test has its own
//! server in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod plane;
#[path = "../../../client/tests/it/proxy.rs"]
#[allow(dead_code, reason = "these tests use one of its two kinds of proxies")]
mod proxy;
mod https;
mod resource;
mod versions;
mod objects;
mod events;
mod webhooks;
mod decoding;
mod slow_clients;
mod body_limits;
mod certificates;
mod faulty;
mod injecting;
mod world;
mod log;
mod caching;
mod uninitialized;
mod controlling;
mod managing;
mod leading;
mod logging;
mod accessing;
mod settling;
mod dynamic;
mod real_clock;
mod network;
mod stopping;
mod ending;
mod writing;
mod mirroring;
mod sharing;
