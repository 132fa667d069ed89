//! `cargo xtask oracle`: replays recorded conversations with kube-apiserver against a plane of
//! ours, and shows where the answers differ.

use crate::command::{cargo, root, run};
use crate::tools;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Who the conversations are held by.
const TOKENS: &str =
    "admin-token,admin,admin-uid,\"system:masters\"\nalice-token,alice,,\nbob-token,bob,,\n";

/// Replays the cases at `arguments`, which may be paths and options of `oracle.py check`; all cases
/// if there are no paths.
pub(crate) fn run_cases(arguments: &[&str]) -> Result<()> {
    let oracle = oracle()?;
    let python = tools::python()?;
    run(&mut cargo(&["build", "--release", "--locked", "--package", "sampan"]))?;
    let directory = root().join("target/oracle");
    fs::create_dir_all(&directory)?;
    let tokens = directory.join("tokens.csv");
    fs::write(&tokens, TOKENS)?;
    let plane = Plane::start(&directory, &tokens)?;
    let mut command = Command::new(python);
    command.arg(oracle.join("oracle.py")).arg("check");
    command.args(["--server", &plane.url, "--token", "admin-token", "--insecure"]);
    command.args(arguments);
    if !arguments.iter().any(|it| Path::new(it).exists()) {
        command.arg(oracle.join("cases"));
    }
    run(&mut command)
}

/// The recorded conversations stand beside the repository, or where `SAMPAN_ORACLE` says.
fn oracle() -> Result<PathBuf> {
    let path = std::env::var_os("SAMPAN_ORACLE")
        .map_or_else(|| root().join("../shared/oracle"), PathBuf::from);
    if !path.join("oracle.py").exists() {
        bail!("there are no recorded cases in {}: set SAMPAN_ORACLE", path.display());
    }
    Ok(path)
}

/// A plane without controllers, ended with this program.
struct Plane {
    process: Child,
    url: String,
}

impl Plane {
    fn start(directory: &Path, tokens: &Path) -> Result<Self> {
        let mut process = Command::new(root().join("target/release/sampan"))
            .args(["up", "--in-memory", "--listen", "127.0.0.1:0", "--controllers", "none"])
            .args(["--nodes", "0", "--service-cidr", "10.0.0.0/24"])
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .arg("--token-auth-file")
            .arg(tokens)
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
                return Ok(Self { process, url });
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
