//! [`Kubectl`]: somebody at a terminal, with a plane and a home directory of their own.
//!
//! What does not depend on whose server it is can also be played elsewhere: `SAMPAN_TEST_CLUSTER` is
//! a kubeconfig, whose current context names a cluster that one may write to.

use crate::kubectl::program::Program;
use crate::kubectl::running::Running;
use crate::plane::Plane;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const ELSEWHERE: &str = "SAMPAN_TEST_CLUSTER";

/// See the [module documentation](self).
pub(super) struct Kubectl {
    pub program: &'static Program,
    pub kubeconfig: PathBuf,
    /// None elsewhere.
    pub plane: Option<Plane>,
    home: TempDir,
}

/// What a command came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Kubectl {
    pub(super) fn new(program: &'static Program) -> Self {
        let (plane, home) = (Plane::in_memory(), tempfile::tempdir().unwrap());
        Self { program, kubeconfig: plane.kubeconfig.clone(), plane: Some(plane), home }
    }

    /// In a namespace of its own of the cluster that the environment names, if it does.
    pub(super) fn elsewhere(program: &'static Program, namespace: &str) -> Option<Self> {
        let named = std::env::var_os(ELSEWHERE)?;
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("config");
        fs::copy(named, &kubeconfig).unwrap();
        let kubectl = Self { program, kubeconfig, plane: None, home };
        kubectl.does(&format!("create namespace {namespace}"));
        kubectl.does(&format!("config set-context --current --namespace={namespace}"));
        Some(kubectl)
    }

    /// Runs a command line that succeeds; what it prints.
    pub(super) fn does(&self, line: &str) -> String {
        self.does_with(line, "")
    }

    /// Runs one that reads a manifest from its standard input.
    pub(super) fn does_with(&self, line: &str, manifest: &str) -> String {
        let outcome = self.outcome(line, manifest);
        assert_eq!(outcome.code, 0, "{:?} {line}: {outcome:?}", self.program);
        outcome.stdout
    }

    /// Runs one that fails; what it complains of.
    pub(super) fn fails(&self, line: &str) -> String {
        self.fails_with(line, "")
    }

    /// Runs one that fails over a manifest.
    pub(super) fn fails_with(&self, line: &str, manifest: &str) -> String {
        let outcome = self.outcome(line, manifest);
        assert_eq!(outcome.code, 1, "{:?} {line}: {outcome:?}", self.program);
        Self::plain(&outcome.stderr)
    }

    /// Runs one to its end, whatever that is.
    pub(super) fn outcome(&self, line: &str, manifest: &str) -> Outcome {
        let mut child = self
            .bounded(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A kubectl that needs no manifest may be gone before it is written.
        let _ = child.stdin.take().unwrap().write_all(manifest.as_bytes());
        Outcome::of(child.wait_with_output().unwrap())
    }

    /// Starts one that goes on until it has seen enough.
    pub(super) fn starts(&self, line: &str) -> Running {
        Running::new(self.command(Command::new(&self.program.path), line))
    }

    /// Edits with a sed script in the place of an editor.
    pub(super) fn edits(&self, what: &str, script: &str) -> Outcome {
        let path = self.home.path().join("script.sed");
        fs::write(&path, script).unwrap();
        let mut command = self.bounded(&format!("edit {what}"));
        let editor = format!("sed --in-place --file {}", path.display());
        Outcome::of(command.env("EDITOR", editor).output().unwrap())
    }

    /// With an end that is certain: `edit` opens the editor again for as long as it gets nonsense.
    fn bounded(&self, line: &str) -> Command {
        let mut command = Command::new("timeout");
        command.arg("60").arg(&self.program.path);
        self.command(command, line)
    }

    fn command(&self, mut command: Command, line: &str) -> Command {
        let home = self.home.path();
        command
            .args(split(line))
            .arg("--cache-dir")
            .arg(home.join("cache"))
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", home)
            // Where `edit` and `diff` leave their files.
            .env("TMPDIR", home)
            .env_remove("KUBE_EDITOR")
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .current_dir(home)
            .stdin(Stdio::null());
        command
    }

    /// The complaint alone: newer kubectls also speak of the distance between two versions.
    fn plain(text: &str) -> String {
        let lines = text.lines().filter(|it| !it.starts_with("WARNING: version difference"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A command line's words, as a shell has them: blanks separate, single quotes keep together.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words.retain(|it| !it.is_empty());
    words
}
