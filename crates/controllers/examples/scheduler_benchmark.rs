//! Prints how many decisions per second the scheduler makes on one core, for some kinds of pods.
//!
//! ```text
//! cargo run --release -p sampan-controllers --example scheduler_benchmark
//! ```

#![allow(clippy::print_stdout, reason = "this program prints its measurements")]

use controllers::scheduler_benchmark::{PodKind, measure};

fn main() {
    println!("nodes  running  kind          decisions/s  us/decision  us/observed pod  bound");
    let kinds = [PodKind::Plain, PodKind::OfService, PodKind::Spread, PodKind::AntiAffinity];
    for (nodes, running) in [(10, 0), (100, 1_000), (1_000, 10_000), (1_000, 100_000)] {
        for kind in kinds {
            let pods = if nodes < 100 { 500 } else { 5_000 };
            let measured = measure(nodes, running, pods, kind);
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
