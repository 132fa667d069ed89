//! The repository's chores: `cargo xtask ci` is all that the continuous build runs.

mod ci;
mod command;
mod fuzz;
mod interop;
mod kinds;
mod oracle;
mod plane;
mod test;
mod tools;

use anyhow::bail;
use std::env;

const USAGE: &str = "usage: cargo xtask COMMAND
  test               all tests; fetches the clients that they need
  ci                 everything that must hold: format, lints, tests, documentation, dependencies
  oracle [PATH…]     replays recorded conversations with kube-apiserver against a plane of ours
  interop [--release] [go|python|javascript|rust]…
                     drives planes of ours with the client libraries that people use
  fuzz [--seconds N] [TARGET…]
                     runs all fuzz targets for N seconds together, 600 unless told
  kinds [--check]    writes the table of built-in types anew, or checks that it is current";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["ci"] => ci::run(),
        ["oracle", rest @ ..] => oracle::run_cases(rest),
        ["interop", rest @ ..] => interop::run_clients(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["kinds"] => kinds::generate(),
        ["kinds", "--check"] => kinds::check(),
        _ => bail!("{USAGE}"),
    }
}
