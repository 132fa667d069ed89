//! `cargo xtask test`: all tests, with the client programs that they need.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::tools;

/// Runs every test of the workspace; `arguments` go to `cargo test`.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let kubectls = std::env::join_paths(tools::kubectls()?)?;
    let mut all = vec!["test", "--workspace", "--locked"];
    all.extend(arguments);
    command::run(cargo(&all).env("SAMPAN_TEST_KUBECTL", kubectls))
}
