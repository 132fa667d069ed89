//! A `sampan up` process for one test.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

use crate::http::Client;

/// The binary under test: the one built with the tests, or another build named in the environment.
pub(crate) fn sampan() -> Command {
    let built = env!("CARGO_BIN_EXE_sampan");
    let mut program =
        Command::new(env::var_os("SAMPAN_TEST_BINARY").unwrap_or_else(|| built.into()));
    // No test makes bridges on the machine.
    program.env("NETWORK_BACKEND", "dry-run");
    program
}

/// A running plane; killed when dropped.
pub(crate) struct Plane {
    pub process: Child,
    pub url: String,
    pub kubeconfig: PathBuf,
    /// Removed after the process has ended.
    directory: Option<TempDir>,
}

impl Plane {
    /// A plane in memory, on a free port.
    pub(crate) fn in_memory() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut plane = Self::start(directory.path(), &["--in-memory"]);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory, with a token file.
    pub(crate) fn with_tokens(tokens: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.csv");
        std::fs::write(&path, tokens).unwrap();
        let arguments = ["--in-memory", "--token-auth-file", path.to_str().unwrap()];
        let mut plane = Self::start(directory.path(), &arguments);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory, with a token file and ABAC policies.
    pub(crate) fn with_tokens_and_policies(tokens: &str, policies: &str) -> Self {
        Self::with_access(tokens, policies, &[])
    }

    /// A plane in memory, with a token file, ABAC policies and further arguments.
    pub(crate) fn with_access(tokens: &str, policies: &str, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [token_file, policy_file] =
            [("tokens.csv", tokens), ("policies.jsonl", policies)].map(|(name, text)| {
                let path = directory.path().join(name);
                std::fs::write(&path, text).unwrap();
                path.to_str().unwrap().to_owned()
            });
        let arguments = [
            "--in-memory",
            "--token-auth-file",
            &token_file,
            "--authorization-policy-file",
            &policy_file,
        ];
        let mut plane = Self::start(directory.path(), &[&arguments, more].concat());
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory, started by a shell script that gets the binary and its arguments.
    pub(crate) fn started_by(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(sampan().get_program());
        let mut plane = Self::launch(shell, directory.path(), &["--in-memory"]);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory, on a given address.
    pub(crate) fn listening_on(address: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--in-memory", "--listen", address];
        let mut plane = Self::start(directory.path(), &arguments);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory with all controllers and this number of simulated nodes.
    pub(crate) fn alive(nodes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--in-memory", "--controllers", "*", "--nodes", &nodes.to_string()];
        let mut plane = Self::start(directory.path(), &arguments);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory with all controllers, a simulated node and these operators.
    pub(crate) fn with_operators(operators: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let arguments = ["--in-memory", "--controllers", "*", "--with", operators];
        let mut plane = Self::start(directory.path(), &arguments);
        plane.directory = Some(directory);
        plane
    }

    /// A plane in memory, with further arguments.
    pub(crate) fn with_arguments(directory: &Path, arguments: &[&str]) -> Self {
        Self::start(directory, &[&["--in-memory"], arguments].concat())
    }

    /// A plane with its data below `directory`.
    pub(crate) fn embedded(directory: &Path) -> Self {
        let data = directory.join("data");
        Self::start(directory, &["--data-dir", data.to_str().unwrap()])
    }

    /// A plane with its data below `directory`, all controllers and a simulated node.
    pub(crate) fn embedded_alive(directory: &Path) -> Self {
        let data = directory.join("data");
        Self::start(directory, &["--data-dir", data.to_str().unwrap(), "--controllers", "*"])
    }

    /// A plane like [`embedded_alive`](Self::embedded_alive) with these operators.
    pub(crate) fn embedded_with_operators(directory: &Path, operators: &str) -> Self {
        let data = directory.join("data");
        let data = data.to_str().unwrap();
        let arguments = ["--data-dir", data, "--controllers", "*", "--with", operators];
        Self::start(directory, &arguments)
    }

    /// Starts a plane like [`embedded_alive`](Self::embedded_alive), and kills it when `wait` returns,
    /// possibly before it is ready.
    pub(crate) fn kill_at_start(directory: &Path, wait: impl FnOnce()) {
        let data = directory.join("data");
        let arguments = ["--data-dir", data.to_str().unwrap(), "--controllers", "*"];
        let mut process = Self::spawn(sampan(), directory, &arguments, Stdio::null());
        wait();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// A plane with its data below `directory` and further arguments, and what it prints besides its
    /// results.
    pub(crate) fn with_log(directory: &Path, arguments: &[&str]) -> (Self, ChildStderr) {
        let data = directory.join("data");
        let arguments = [&["--data-dir", data.to_str().unwrap()], arguments].concat();
        let mut process = Self::spawn(sampan(), directory, &arguments, Stdio::piped());
        let log = process.stderr.take().unwrap();
        (Self::wait_until_ready(process, directory), log)
    }

    fn start(directory: &Path, arguments: &[&str]) -> Self {
        Self::launch(sampan(), directory, arguments)
    }

    fn spawn(mut program: Command, directory: &Path, arguments: &[&str], log: Stdio) -> Child {
        let free_port = ["--listen", "127.0.0.1:0"];
        let listen: &[&str] = if arguments.contains(&"--listen") { &[] } else { &free_port };
        let bare = ["--controllers", "none", "--nodes", "0"];
        let components: &[&str] = if arguments.contains(&"--controllers") { &[] } else { &bare };
        program
            .args(["up", "--kubeconfig"])
            .arg(directory.join("kubeconfig"))
            .args(listen)
            .args(components)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn launch(program: Command, directory: &Path, arguments: &[&str]) -> Self {
        let process = Self::spawn(program, directory, arguments, Stdio::null());
        Self::wait_until_ready(process, directory)
    }

    fn wait_until_ready(mut process: Child, directory: &Path) -> Self {
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut url = String::new();
        loop {
            let line = lines.next().expect("sampan ended before it was ready").unwrap();
            if line.starts_with("https://") {
                url = line;
            } else if line.starts_with("ready in") {
                break;
            }
        }
        Self { process, url, kubeconfig: directory.join("kubeconfig"), directory: None }
    }

    /// A client with the kubeconfig's credentials.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url, &self.kubeconfig)
    }

    /// Kills the process, as in a crash.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.directory.take();
    }
}
