//! [`Kubectl`]: a shell session with kubectl, a plane and a home directory.
//!
//! Scenarios that do not depend on Sampan can also run in another cluster: `SAMPAN_TEST_CLUSTER` is
//! a kubeconfig, whose current context names a cluster with write access.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::kubectl::program::Program;
use crate::kubectl::running::Running;
use crate::plane::Plane;

const CLUSTER_VARIABLE: &str = "SAMPAN_TEST_CLUSTER";

/// The time after which something that should happen soon has failed.
const LIMIT: Duration = Duration::from_mins(1);

/// See the [module documentation](self).
pub(super) struct Kubectl {
    pub program: &'static Program,
    pub kubeconfig: PathBuf,
    /// The plane; none in another cluster.
    pub plane: Option<Plane>,
    home: TempDir,
}

/// The result of a command.
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
        Self::with_plane(program, Plane::in_memory())
    }

    /// A session with a plane of its own.
    pub(super) fn with_plane(program: &'static Program, plane: Plane) -> Self {
        let home = tempfile::tempdir().unwrap();
        Self { program, kubeconfig: plane.kubeconfig.clone(), plane: Some(plane), home }
    }

    /// A session in a namespace of the cluster in the environment, if there is one.
    pub(super) fn in_test_cluster(program: &'static Program, namespace: &str) -> Option<Self> {
        let named = std::env::var_os(CLUSTER_VARIABLE)?;
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("config");
        fs::copy(named, &kubeconfig).unwrap();
        let kubectl = Self { program, kubeconfig, plane: None, home };
        kubectl.does(&format!("create namespace {namespace}"));
        kubectl.does(&format!("config set-context --current --namespace={namespace}"));
        Some(kubectl)
    }

    /// Runs a command that succeeds, and returns its output.
    pub(super) fn does(&self, line: &str) -> String {
        self.does_with(line, "")
    }

    /// Runs a command that succeeds with a manifest on standard input.
    pub(super) fn does_with(&self, line: &str, manifest: &str) -> String {
        let outcome = self.outcome(line, manifest);
        assert_eq!(outcome.code, 0, "{:?} {line}: {outcome:?}", self.program);
        outcome.stdout
    }

    /// Runs a command that fails, and returns its error message.
    pub(super) fn fails(&self, line: &str) -> String {
        self.fails_with(line, "")
    }

    /// Runs a command that fails with a manifest on standard input.
    pub(super) fn fails_with(&self, line: &str, manifest: &str) -> String {
        let outcome = self.outcome(line, manifest);
        assert_eq!(outcome.code, 1, "{:?} {line}: {outcome:?}", self.program);
        Self::plain(&outcome.stderr)
    }

    /// Repeats a check until it succeeds, for changes that a controller makes.
    pub(super) fn until(&self, mut is_done: impl FnMut() -> bool) {
        let began = tokio::time::Instant::now();
        while !is_done() {
            assert!(began.elapsed() < LIMIT, "{:?}: nothing has happened", self.program);
        }
    }

    /// Waits until no object is left of those that a `get` finds.
    pub(super) fn until_gone(&self, objects: &str) {
        self.until(|| self.does(&format!("get {objects} -o name --ignore-not-found")).is_empty());
    }

    /// Runs a command and returns its result.
    pub(super) fn outcome(&self, line: &str, manifest: &str) -> Outcome {
        let mut child = self
            .bounded(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A kubectl that reads no manifest may end before it is written.
        let _ = child.stdin.take().unwrap().write_all(manifest.as_bytes());
        Outcome::of(child.wait_with_output().unwrap())
    }

    /// Starts a command that runs in the background.
    pub(super) fn starts(&self, line: &str) -> Running {
        Running::new(self.command(Command::new(&self.program.path), line))
    }

    /// Runs `kubectl edit` with a sed script as the editor.
    pub(super) fn edits(&self, what: &str, script: &str) -> Outcome {
        let path = self.home.path().join("script.sed");
        fs::write(&path, script).unwrap();
        let mut command = self.bounded(&format!("edit {what}"));
        let editor = format!("sed --in-place --file {}", path.display());
        Outcome::of(command.env("EDITOR", editor).output().unwrap())
    }

    /// A command with a timeout: `edit` reopens the editor as long as the result is invalid.
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
            // The directory of the temporary files of `edit` and `diff`.
            .env("TMPDIR", home)
            .env_remove("KUBE_EDITOR")
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .current_dir(home)
            .stdin(Stdio::null());
        command
    }

    /// The error message without the warning of newer kubectls about version skew.
    fn plain(text: &str) -> String {
        let lines = text.lines().filter(|it| !it.starts_with("WARNING: version difference"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Splits a command line as a shell does: at spaces, but not within single quotes.
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
