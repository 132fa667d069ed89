//! `cargo xtask test`: all tests, with the client programs that they need.

#![allow(clippy::print_stderr, reason = "a missing program is reported")]

use anyhow::Result;

use crate::command::{self, cargo};
use crate::{envoy, tools};

/// Runs every test of the workspace; `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let kubectls = std::env::join_paths(tools::kubectls()?)?;
    let mut all = vec!["test", "--workspace", "--locked"];
    all.extend(arguments);
    let mut test = cargo(&all);
    test.env("SAMPAN_TEST_KUBECTL", kubectls);
    match envoy::program() {
        Ok(program) => {
            test.env(envoy::VARIABLE, program);
        }
        Err(error) => eprintln!("note: the tests have no Envoy: {error:#}"),
    }
    command::run(&mut test)
}
