//! The cost of a controller: our runtime beside kube-runtime, with the same objects of the same
//! server.
//!
//! ```text
//! this program ─┬─▶ itself as the server       our API server, in memory, over TLS on loopback
//!               ├─▶ itself as a contender      caches or reconciles, and measures itself
//!               └─▶ itself as the load         changes objects while a contender watches
//! ```
//!
//! Every figure is that of one process: its heap as counted by the allocator, its memory as counted
//! by the system, its CPU time. Both runtimes have their defaults; see [`ours`] and
//! [`kube_runtime`].

mod args;
mod widget;
mod pod;
mod server;
mod load;
mod usage;
mod progress;
mod contender;
mod ours;
mod kube_runtime;
mod children;
mod comparison;
mod report;

use std::alloc::System;
use std::io;
use std::io::Write;

use anyhow::Result;
use cap::Cap;
use clap::Parser;

use args::{Args, Role};

/// Counts the allocated bytes.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    match &args.role {
        Some(Role::Serve(serve)) => server::serve(serve).await,
        Some(Role::Load(load)) => load::change(load).await,
        Some(Role::Contend(task)) => contender::contend(task).await,
        None => {
            let comparison = comparison::compare(&args).await?;
            let text =
                if args.json { comparison.to_json()? } else { report::table(&args, &comparison) };
            Ok(writeln!(io::stdout(), "{text}")?)
        }
    }
}
