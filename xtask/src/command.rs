//! Runs programs and prints their command lines.

#![allow(clippy::print_stderr, reason = "a task prints what it runs")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root directory of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").to_owned()
}

/// The cargo binary that runs this program, with arguments.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    // These variables, which cargo sets for this program, would make build scripts run again.
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST", "CARGO_PRIMARY", "CARGO_CRATE", "CARGO_BIN"];
    for (name, _) in std::env::vars_os() {
        if prefixes.iter().any(|it| name.to_string_lossy().starts_with(it)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a program to its end; fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let text = words.join(" ");
    eprintln!("$ {text}");
    let status = command.status().with_context(|| format!("cannot run {text}"))?;
    if !status.success() {
        bail!("{text} failed: {status}");
    }
    Ok(())
}

/// Returns whether a program is on the path.
pub(crate) fn is_installed(program: &str) -> bool {
    find(program).is_some()
}

/// The path of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|it| it.join(program))
        .find(|it| it.is_file())
}
