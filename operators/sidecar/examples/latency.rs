//! Measures the time that each mode adds to the creation of a pod:
//! `cargo run -p sidecar-operator --example latency`.
//!
//! Pods are created one after another, in a server and with an operator in this process. The webhook
//! is called over HTTPS on loopback.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure ends the program")]
#![allow(dead_code, reason = "the tests use more of these modules")]
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

#[path = "../tests/it/requests.rs"]
mod requests;
#[path = "../tests/it/world.rs"]
mod world;

use requests::{PODS, annotated, plain};
use sidecar_operator::Mode;
use world::World;

const PODS_PER_MODE: usize = 500;

#[tokio::main]
async fn main() {
    println!("{:<12} {:>21} {:>21}", "", "with annotation", "without annotation");
    println!("{:<12} {:>10} {:>10} {:>10} {:>10}", "mode", "median", "p99", "median", "p99");
    for mode in [None, Some(Mode::Policy), Some(Mode::Webhook), Some(Mode::Initializer)] {
        let world = match mode {
            Some(mode) => World::start(mode).await,
            // The roles of the policy, but no policy.
            None => World::with(Mode::Policy, world::bare()).await,
        };
        let name = mode.map_or("none".to_owned(), |mode| format!("{mode:?}").to_lowercase());
        let (median, p99) = measure(&world, annotated).await;
        let (plain_median, plain_p99) = measure(&world, plain).await;
        println!(
            "{name:<12} {median:>10.2?} {p99:>10.2?} {plain_median:>10.2?} {plain_p99:>10.2?}"
        );
        world.stop().await;
    }
}

/// The median and the 99th percentile of the times of creations.
async fn measure(world: &World, pod: fn(&str) -> Value) -> (Duration, Duration) {
    let mut times = Vec::new();
    for number in 0..PODS_PER_MODE {
        let pod = pod(&format!("web-{number}"));
        let start = Instant::now();
        world.admin.create(PODS, &pod).await.unwrap();
        times.push(start.elapsed());
    }
    for pod in world.admin.get(PODS).await.unwrap()["items"].as_array().unwrap() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        world.admin.delete(&format!("{PODS}/{name}")).await;
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
