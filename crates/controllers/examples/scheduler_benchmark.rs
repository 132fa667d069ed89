//! Prints how many decisions per second of processor time the scheduler makes, for some kinds of
//! pods. It reads the processor time of its thread from Linux, so that other programs do not count.
//!
//! ```text
//! cargo run --release -p sampan-controllers --example scheduler_benchmark
//! ```

#![allow(clippy::print_stdout, reason = "this program prints its measurements")]

use std::time::Duration;

use controllers::scheduler_benchmark::{PodKind, Size, measure};

fn main() {
    println!("nodes  running  kind          decisions/s  us/decision  us/observed pod  bound");
    let kinds = [PodKind::Plain, PodKind::OfService, PodKind::Spread, PodKind::AntiAffinity];
    for (nodes, running) in [(10, 0), (100, 1_000), (1_000, 10_000), (1_000, 100_000)] {
        for kind in kinds {
            let pods = 5_000;
            let measured = measure(Size { nodes, running, pods }, kind, cpu_time);
            let count = f64::from(u32::try_from(pods).unwrap_or(u32::MAX));
            let seconds = measured.deciding.as_secs_f64();
            println!(
                "{nodes:>5}  {running:>7}  {:<12}  {:>11.0}  {:>11.1}  {:>15.1}  {:>5}",
                format!("{kind:?}"),
                count / seconds,
                seconds * 1e6 / count,
                measured.observing.as_secs_f64() * 1e6 / count,
                measured.bound,
            );
        }
    }
}

/// The processor time of this thread; zero if the system does not tell.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}
