//! [`Server`]: the API server of an operator: that of the kubeconfig, or one that is started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::cluster::{Cluster, ClusterArgs};
use crate::output::Output;
use keel::Clock;

/// The time within which a server of the kubeconfig responds.
const RESPONSE_LIMIT: Duration = Duration::from_secs(5);
/// The time within which a started server is ready.
const START_LIMIT: Duration = Duration::from_secs(30);

/// See the [module documentation](self).
pub(super) struct Server {
    pub(super) cluster: Cluster,
    /// The kubeconfig of the operator, unless it is the default one.
    kubeconfig: Option<PathBuf>,
    /// The folder of that kubeconfig.
    _folder: Option<TempDir>,
    plane: Option<Child>,
}

impl Server {
    /// The server of the kubeconfig. If the user has not named one and it cannot be reached, another is
    /// started.
    pub(super) async fn find_or_start(args: &ClusterArgs, output: &mut Output<'_>) -> Result<Self> {
        let error = match Self::find(args).await {
            Ok(server) => return Ok(server),
            Err(error) if args.kubeconfig.is_some() || args.context.is_some() => return Err(error),
            Err(error) => error,
        };
        output.note(&format!("{error:#}"));
        Self::start(output).await
    }

    async fn find(args: &ClusterArgs) -> Result<Self> {
        let cluster = args.connect().await?;
        tokio::select! {
            version = cluster.get("/version") => drop(version?),
            () = Clock::system().sleep(RESPONSE_LIMIT) => {
                bail!("the server of the kubeconfig does not respond within {} s", RESPONSE_LIMIT.as_secs())
            }
        }
        let (mut kubeconfig, mut folder) = (args.kubeconfig.clone(), None);
        if args.context.is_some() {
            let temporary = tempfile::tempdir()?;
            let path = temporary.path().join("kubeconfig");
            args.write_kubeconfig(&path)?;
            (kubeconfig, folder) = (Some(path), Some(temporary));
        }
        let kubeconfig = kubeconfig.map(std::path::absolute).transpose()?;
        Ok(Self { cluster, kubeconfig, _folder: folder, plane: None })
    }

    async fn start(output: &mut Output<'_>) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let program = env::current_exe().context("cannot find the program `sampan`")?;
        let mut command = Command::new(program);
        command.args(["up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(&kubeconfig).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let mut plane = command.spawn().context("cannot start `sampan up`")?;
        let args = ClusterArgs { kubeconfig: Some(kubeconfig.clone()), context: None };
        let cluster = tokio::select! {
            cluster = until_ready(&args) => cluster,
            ended = plane.wait() => bail!("`sampan up` ended with {}", ended?),
            () = Clock::system().sleep(START_LIMIT) => {
                bail!("`sampan up` is not ready after {} s", START_LIMIT.as_secs())
            }
        };
        output.note(&format!(
            "started a server in memory, which ends with this command; in another terminal:\n  \
             export KUBECONFIG={}",
            kubeconfig.display()
        ));
        let plane = Some(plane);
        Ok(Self { cluster, kubeconfig: Some(kubeconfig), _folder: Some(folder), plane })
    }

    /// The kubeconfig of the operator, unless it is the default one.
    pub(super) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Stops the server if it was started.
    pub(super) async fn stop(self) -> Result<()> {
        let Some(mut plane) = self.plane else { return Ok(()) };
        let pid = plane.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have got the signal of the terminal already.
            let _ = kill_process(pid, Signal::TERM);
        }
        tokio::select! {
            ended = plane.wait() => drop(ended?),
            () = Clock::system().sleep(RESPONSE_LIMIT) => plane.kill().await?,
        }
        Ok(())
    }
}

/// Waits until the server has written its kubeconfig and responds.
async fn until_ready(args: &ClusterArgs) -> Cluster {
    loop {
        if let Ok(cluster) = args.connect().await
            && cluster.get("/version").await.is_ok()
        {
            return cluster;
        }
        Clock::system().sleep(Duration::from_millis(50)).await;
    }
}
