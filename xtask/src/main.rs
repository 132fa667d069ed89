//! The tasks of the repository. Continuous integration runs `cargo xtask ci`.

mod ci;
mod command;
mod envoy;
mod fuzz;
mod interop;
mod neutron;
mod types;
mod oracle;
mod plane;
mod python_environment;
mod test;
mod tools;

use std::env;
use std::io::Write;

use anyhow::bail;

const USAGE: &str = "usage: cargo xtask COMMAND
  test [OPTION…]     all tests; installs the client programs they need; options go to `cargo test`
  ci                 all checks: format, lints, tests, documentation, dependencies
  oracle [OPTION…] [PATH…]
                     replays recorded conversations with kube-apiserver against a plane
  interop [--release] [go|python|javascript|rust]…
                     tests planes with widely used client libraries
  fuzz [--seconds N] [TARGET…]
                     runs all fuzz targets for N seconds together, by default 600
  types [--check]    generates the table of built-in types, or checks that it is up to date

examples:
  cargo xtask test --test it command_line    tests whose names contain command_line
  cargo xtask oracle --match watch           the conversations about watches
  cargo xtask interop python rust
  cargo xtask fuzz --seconds 60";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if requests_help(&arguments) {
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

/// Returns whether the arguments request help, which is printed before anything is built.
fn requests_help(arguments: &[&str]) -> bool {
    // Arguments after `--` belong to the program that the command runs.
    let ours = arguments.iter().take_while(|it| **it != "--");
    arguments.first() == Some(&"help") || ours.into_iter().any(|it| matches!(*it, "--help" | "-h"))
}

fn print_usage() -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{USAGE}")?)
}
