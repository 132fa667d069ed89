//! Measures the writes per second of the embedded store, and the time to open it again.
//!
//! `cargo run --release -p sampan-store --example commit_rate [RECORDS]` writes for one second
//! with 1, 8, 16 and 64 writers each, fills the store up to RECORDS records of 1 KiB, and opens it
//! again in another process.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for the terminal")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use keel::{Clock, Tasks};
use store::{Embedded, Expect, Options, Store};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["open", directory] => open_again(Path::new(directory)).await,
        ref rest => fill(rest.first().map_or(0, |records| records.parse().unwrap())).await,
    }
}

fn open(directory: &Path, tasks: &Tasks) -> Arc<dyn Store> {
    Embedded::open(directory, Options::default(), &Clock::system(), tasks).unwrap()
}

async fn fill(records: u64) {
    let (directory, tasks) = (tempfile::tempdir_in(".").unwrap(), Tasks::new());
    let store = open(directory.path(), &tasks);
    println!("writers   writes/s   CPU µs/write");
    for writers in [1, 8, 16, 64] {
        let (before, start) = (cpu_time(), Instant::now());
        let writes = write(&store, &tasks, writers, u64::MAX).await;
        let rate = Duration::from_secs(writes).div_duration_f64(start.elapsed());
        let cpu = cpu_time().saturating_sub(before).div_duration_f64(Duration::from_micros(writes));
        println!("{writers:7}   {rate:8.0}   {cpu:12.1}");
    }
    while store.revision().await.unwrap() < records {
        write(&store, &tasks, 256, records / 256).await;
    }
    store.close().await.unwrap();
    // In a process of its own, whose resident memory is that of the records.
    let program = std::env::current_exe().unwrap();
    Command::new(program).arg("open").arg(directory.path()).status().unwrap();
}

async fn open_again(directory: &Path) {
    let (tasks, start) = (Tasks::new(), Instant::now());
    let store = open(directory, &tasks);
    let records = store.range("", None, 0, None).await.unwrap().remaining;
    let (elapsed, memory) = (start.elapsed(), memory());
    println!("{records} records opened in {elapsed:.1?}, {:.1?} of CPU; {memory}", cpu_time());
    store.close().await.unwrap();
}

/// Creates records with `writers` concurrent tasks, for a second, or until each has created `max_each`
/// if that is less than `u64::MAX`. Returns the number of records.
async fn write(store: &Arc<dyn Store>, tasks: &Tasks, writers: u64, max_each: u64) -> u64 {
    let written = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let first = store.revision().await.unwrap();
    let started: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, written) = (Arc::clone(store), Arc::clone(&written));
            tasks.spawn("writer", async move {
                let mut created = 0;
                while created < max_each && (max_each < u64::MAX || start.elapsed() < SECOND) {
                    let key = format!("/registry/configmaps/default/{first}-{writer}-{created}");
                    let value = Bytes::from(vec![b'x'; 1024]);
                    store.put(&key, value, Expect::Absent, None).await.unwrap();
                    created += 1;
                }
                written.fetch_add(created, Ordering::Relaxed);
            })
        })
        .collect();
    for writer in started {
        writer.await.unwrap();
    }
    written.load(Ordering::Relaxed)
}

/// The user and system time of this process. Linux counts it in ticks of 10 ms, as fields 14 and 15
/// of `/proc/self/stat`.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
}

fn memory() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("unknown").trim().to_owned()
}
