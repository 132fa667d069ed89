//! `cargo xtask ci`: everything that must hold before a change is good.

use crate::command::{self, cargo};
use crate::{test, types};
use anyhow::Result;

/// From the quickest complaint to the slowest.
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
    command::run(
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    deny()
}

/// Licenses, duplicate versions, and where dependencies come from.
fn deny() -> Result<()> {
    if command::run(&mut cargo(&["deny", "--version"])).is_err() {
        command::run(&mut cargo(&["install", "--locked", "cargo-deny"]))?;
    }
    command::run(&mut cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"]))
}
