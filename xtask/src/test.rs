//! `cargo xtask test`: all tests, with the client programs that they need.

#![allow(clippy::print_stderr, reason = "a missing program is reported")]

use anyhow::Result;

use crate::command::{self, cargo};
use crate::{envoy, neutron, tools};

/// Runs every test of the workspace; `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let kubectls = std::env::join_paths(tools::kubectls()?)?;
    tools::install_image_programs();
    let mut all = vec!["test", "--workspace", "--locked"];
    all.extend(arguments);
    let mut test = cargo(&all);
    test.env("SAMPAN_TEST_KUBECTL", kubectls);
    let programs = [(envoy::VARIABLE, envoy::program()), (neutron::VARIABLE, neutron::python())];
    for (variable, program) in programs {
        match program {
            Ok(program) => {
                test.env(variable, program);
            }
            Err(error) => eprintln!("note: tests without {variable} are skipped: {error:#}"),
        }
    }
    command::run(&mut test)
}
