//! `cargo xtask ci`: all checks of a change.

use anyhow::Result;

use crate::command::{self, cargo};
use crate::{test, types};

/// Runs all checks, the fastest ones first.
pub(crate) fn run() -> Result<()> {
    command::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    command::run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    types::check()?;
    test::run(&[])?;
    // Projects are compiled with their dependencies, which takes some minutes.
    command::run(
        cargo(&["test", "--package", "sampan-toolkit", "--locked", "--", "building"])
            .env("SAMPAN_TEST_PROJECTS", "1"),
    )?;
    command::run(
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    deny()
}

/// Checks licenses, duplicate versions and sources of dependencies.
fn deny() -> Result<()> {
    if command::run(&mut cargo(&["deny", "--version"])).is_err() {
        command::run(&mut cargo(&["install", "--locked", "cargo-deny"]))?;
    }
    command::run(&mut cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"]))
}
