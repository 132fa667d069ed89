//! [`Operator`]: the running program of a project.

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::cargo::Cargo;
use keel::Clock;

/// The longest time of a stop; the program itself stops within half a minute.
const STOP_LIMIT: Duration = Duration::from_secs(35);

/// See the [module documentation](self).
pub(super) struct Operator {
    child: Child,
}

impl Operator {
    /// Starts `cargo run`, which becomes the program.
    pub(super) fn start(
        cargo: &Cargo,
        arguments: &[&str],
        kubeconfig: Option<&Path>,
    ) -> Result<Self> {
        let mut command = Command::from(cargo.command(arguments));
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let child = command.kill_on_drop(true).spawn().context("cannot start the operator")?;
        Ok(Self { child })
    }

    /// Waits until the program ends.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Asks the program to stop, so that it releases its lease, and kills it if it does not.
    pub(super) async fn stop(mut self) -> Result<()> {
        let pid = self.child.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(()) };
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
        tokio::select! {
            ended = self.child.wait() => drop(ended?),
            () = Clock::system().sleep(STOP_LIMIT) => self.child.kill().await?,
        }
        Ok(())
    }
}
