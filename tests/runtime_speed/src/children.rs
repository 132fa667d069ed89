//! Child processes of this program: the server, the load, a measured runtime.

use std::env;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child as Process, ChildStdout, Command};

/// A child process, which is killed when this is dropped.
pub(crate) struct Child {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
    what: String,
}

impl Child {
    /// Starts this program with other arguments, and the server's `kubeconfig`.
    pub(crate) fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = process.stdout.take().context("its output is piped")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { process, lines, what: arguments.join(" ") })
    }

    /// The next line of its output.
    pub(crate) async fn line(&mut self) -> Result<String> {
        self.lines.next_line().await?.with_context(|| format!("{:?} has ended", self.what))
    }

    /// Waits until it has ended with success.
    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.process.stdin.take());
        let status = self.process.wait().await?;
        ensure!(status.success(), "{:?} has failed: {status}", self.what);
        Ok(())
    }
}
