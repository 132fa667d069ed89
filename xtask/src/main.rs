//! The repository's chores: `cargo xtask ci` is all that the continuous build runs.

mod ci;
mod command;
mod fuzz;
mod interop;
mod types;
mod oracle;
mod plane;
mod test;
mod tools;

use anyhow::bail;
use std::env;
use std::io::Write;

const USAGE: &str = "usage: cargo xtask COMMAND
  test [OPTION…]     all tests; installs the client programs they need; options go to `cargo test`
  ci                 everything that must hold: format, lints, tests, documentation, dependencies
  oracle [OPTION…] [PATH…]
                     replays recorded conversations with kube-apiserver against a plane of ours
  interop [--release] [go|python|javascript|rust]…
                     drives planes of ours with the client libraries that people use
  fuzz [--seconds N] [TARGET…]
                     runs all fuzz targets for N seconds together, 600 unless told
  types [--check]    writes the table of built-in types anew, or checks that it is current

examples:
  cargo xtask test --test it command_line    tests whose names contain command_line
  cargo xtask oracle --match watch           the conversations about watches
  cargo xtask interop python rust
  cargo xtask fuzz --seconds 60";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if asks_for_help(&arguments) {
        return print_usage();
    }
    match arguments.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["ci"] => ci::run(),
        ["oracle", rest @ ..] => oracle::run_cases(rest),
        ["interop", rest @ ..] => interop::run_clients(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["types"] => types::generate(),
        ["types", "--check"] => types::check(),
        _ => bail!("{USAGE}"),
    }
}

/// Whether help is asked for, of whichever command: before anything is built or installed.
fn asks_for_help(arguments: &[&str]) -> bool {
    // What follows `--` is for the program that the command runs.
    let ours = arguments.iter().take_while(|it| **it != "--");
    arguments.first() == Some(&"help") || ours.into_iter().any(|it| matches!(*it, "--help" | "-h"))
}

fn print_usage() -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{USAGE}")?)
}
