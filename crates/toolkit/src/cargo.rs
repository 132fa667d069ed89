//! [`Cargo`]: runs cargo in a project.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Cargo {
    root: PathBuf,
    target_dir: Option<PathBuf>,
}

impl Cargo {
    /// For the project in this folder.
    pub(crate) fn new(root: &Path, target_dir: Option<PathBuf>) -> Self {
        Self { root: root.to_owned(), target_dir }
    }

    /// A command in the project, with the cargo that has called this program, or that of the `PATH`.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.root).stdin(Stdio::null());
        if let Some(target_dir) = &self.target_dir {
            command.env("CARGO_TARGET_DIR", target_dir);
        }
        command
    }

    /// Runs cargo with these arguments and variables; the user sees its messages. Returns its standard
    /// output.
    pub(crate) fn run(
        &self,
        arguments: &[&str],
        variables: &[(&str, &Path)],
        purpose: &str,
    ) -> Result<Vec<u8>> {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied()).stderr(Stdio::inherit());
        let ran = command.output().with_context(|| {
            format!("cannot {purpose}: cargo does not start; install Rust, or add it to the PATH")
        })?;
        if !ran.status.success() {
            let printed = String::from_utf8_lossy(&ran.stdout);
            bail!("cannot {purpose}: cargo ended with {}\n{}", ran.status, printed.trim());
        }
        Ok(ran.stdout)
    }
}
