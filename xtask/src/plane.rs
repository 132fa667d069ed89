//! [`Plane`]: a control plane for a task, in memory and on a free port.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, root, run};

/// The build profile of the binary.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Profile {
    Debug,
    Release,
}

/// Builds `sampan` and returns its path.
pub(crate) fn build(profile: Profile) -> Result<PathBuf> {
    let mut command = cargo(&["build", "--locked", "--package", "sampan"]);
    let folder = match profile {
        Profile::Debug => "debug",
        Profile::Release => {
            command.arg("--release");
            "release"
        }
    };
    run(&mut command)?;
    Ok(root().join("target").join(folder).join("sampan"))
}

/// A running plane; killed when dropped.
pub(crate) struct Plane {
    process: Child,
    pub url: String,
    pub kubeconfig: PathBuf,
}

impl Plane {
    /// Starts `sampan up` with further `arguments`; its kubeconfig is written to `directory`.
    pub(crate) fn start(sampan: &Path, directory: &Path, arguments: &[&str]) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let kubeconfig = directory.join("kubeconfig");
        // The plane would merge its entries into an existing file.
        if kubeconfig.exists() {
            fs::remove_file(&kubeconfig)?;
        }
        let mut process = Command::new(sampan)
            .args(["up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(&kubeconfig)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start sampan")?;
        let output = process.stdout.take().context("sampan has no output")?;
        let mut url = String::new();
        for line in BufReader::new(output).lines() {
            let line = line?;
            if line.starts_with("https://") {
                url = line;
            } else if line.starts_with("ready") {
                return Ok(Self { process, url, kubeconfig });
            }
        }
        bail!("sampan ended before it was ready")
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
