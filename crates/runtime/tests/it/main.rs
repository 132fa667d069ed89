//! The runtime against our own server, in one process, and what it does when that fails: every test
//! has a plane of its own, in memory, whose time stands still until the test moves it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and says which it was"
)]

mod plane;
#[path = "../../../client/tests/it/proxy.rs"]
#[allow(dead_code, reason = "of the two kinds of proxies, one is enough here")]
mod proxy;
mod https;
mod resource;
mod versions;
mod objects;
mod events;
mod webhooks;
mod slow_clients;
mod certificates;
mod faulty;
mod injecting;
mod world;
mod caching;
mod controlling;
mod managing;
mod leading;
mod real_clock;
mod network;
mod stopping;
mod writing;
mod mirroring;
