//! `cargo xtask oracle`: replays recorded conversations with kube-apiserver against a plane and
//! prints the differences of the responses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::{root, run};
use crate::plane::{self, Plane, Profile};
use crate::tools;

/// The token file with the users of the conversations.
const TOKENS: &str =
    "admin-token,admin,admin-uid,\"system:masters\"\nalice-token,alice,,\nbob-token,bob,,\n";

/// Replays the cases in `arguments`, which are paths and options of `oracle.py check`; without paths,
/// all cases.
pub(crate) fn run_cases(arguments: &[&str]) -> Result<()> {
    let oracle = oracle()?;
    let python = tools::find_or_install_python()?;
    let sampan = plane::build(Profile::Release)?;
    let directory = root().join("target/oracle");
    fs::create_dir_all(&directory)?;
    let tokens = directory.join("tokens.csv");
    fs::write(&tokens, TOKENS)?;
    let tokens = tokens.to_str().context("the path of the tokens is not text")?;
    let without_controllers =
        ["--controllers", "none", "--nodes", "0", "--service-cidr", "10.0.0.0/24"];
    let plane = Plane::start(
        &sampan,
        &directory,
        &[&without_controllers[..], &["--token-auth-file", tokens]].concat(),
    )?;
    let mut command = Command::new(python);
    command.arg(oracle.join("oracle.py")).arg("check");
    command.args(["--server", &plane.url, "--token", "admin-token", "--insecure"]);
    command.args(arguments);
    if !arguments.iter().any(|it| Path::new(it).exists()) {
        command.arg(oracle.join("cases"));
    }
    run(&mut command)
}

/// The folder of recorded conversations: beside the repository, or the value of `SAMPAN_ORACLE`.
fn oracle() -> Result<PathBuf> {
    let path = std::env::var_os("SAMPAN_ORACLE")
        .map_or_else(|| root().join("../shared/oracle"), PathBuf::from);
    if !path.join("oracle.py").exists() {
        bail!(
            "there are no recorded conversations in {}: they are not part of this repository; set \
             SAMPAN_ORACLE to their folder",
            path.display()
        );
    }
    Ok(path)
}
