//! The client verbs of kubectl, as a library: the same flags, output, messages and exit codes.
//!
//! ```no_run
//! use clap::Parser;
//! use kubectl::{Io, Verb};
//!
//! #[derive(Parser)]
//! struct Args {
//!     #[command(subcommand)]
//!     verb: Verb,
//! }
//!
//! # async fn example() -> anyhow::Result<()> {
//! let args = Args::parse_from(["sampan", "get", "pods", "--namespace", "shop"]);
//! let exit_code = kubectl::run(args.verb, &mut Io::standard()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A verb prints its results and its errors through [`Io`]. [`call`] is the whole program `kubectl`,
//! with the command line as its argument.
//!
//! ```text
//! Verb ─▶ Targets (arguments, files) ─▶ Session (requests) ─▶ print (tables, JSON, YAML, …) ─▶ Io
//!            └─ Discovery (names of resources)
//! ```

mod io;
mod error;
mod flags;
mod global;
mod kubeconfig;
mod session;
mod discovery;
mod manifests;
mod targets;
mod lists;
mod watch;
mod mutation;
mod print;
mod verbs;
mod verb;
mod program;

pub use io::{Io, Notes};
pub use program::{call, call_for_code};
pub use verb::{Verb, run};
