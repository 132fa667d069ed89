//! One measurement of one runtime, in a separate process.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use serde::de::DeserializeOwned;

use crate::args::{Contender, Task, Work};
use crate::kube_runtime::ManagedFields;
use crate::progress::{Goal, Progress};
use crate::usage::{Figures, Usage};
use crate::widget::Widget;
use crate::{kube_runtime, ours};

/// The time for pending work after the cache has synced.
const SETTLING: Duration = Duration::from_millis(500);

/// A line of output for the parent process.
pub(crate) mod line {
    /// Every object was reconciled once; changes may begin.
    pub(crate) const BEGUN: &str = "begun";
}

/// A kind that both runtimes can cache.
pub(crate) trait Cached:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl Cached for Widget {}
impl Cached for Pod {}

/// A synced cache, which lives as long as this value.
pub(crate) struct Cache {
    /// The number of objects.
    pub objects: usize,
    /// Keeps the cache alive.
    pub _kept: Box<dyn Any>,
}

/// Measures, and prints the [`Figures`] as the last line.
pub(crate) async fn contend(task: &Task) -> Result<()> {
    let figures = match task.work {
        Work::CacheWidgets => cache::<Widget>(task).await?,
        Work::CachePods => cache::<Pod>(task).await?,
        Work::FollowChanges => follow_changes(task).await?,
        Work::Repeat => repeat(task).await?,
    };
    print_line(&serde_json::to_string(&figures)?)
}

async fn cache<K: Cached>(task: &Task) -> Result<Figures> {
    let before = Usage::now()?;
    let cache = match task.contender {
        Contender::Ours => ours::cache::<K>().await?,
        Contender::KubeRuntime => kube_runtime::cache::<K>(ManagedFields::Kept).await?,
        Contender::KubeRuntimeCleared => kube_runtime::cache::<K>(ManagedFields::Cleared).await?,
    };
    let done = Usage::now()?;
    ensure!(cache.objects == task.objects, "{} objects are cached", cache.objects);
    tokio::time::sleep(SETTLING).await;
    before.figures(cache.objects as u64, &done)
}

async fn follow_changes(task: &Task) -> Result<Figures> {
    let progress = start(task, Goal::Round(task.goal)).await?;
    let (before, reconciles) = (Usage::now()?, progress.reconciles());
    print_line(line::BEGUN)?;
    progress.until_goal().await;
    let done = Usage::now()?;
    before.figures(progress.reconciles() - reconciles, &done)
}

async fn repeat(task: &Task) -> Result<Figures> {
    let progress = start(task, Goal::Reconciles(task.goal)).await?;
    let (before, reconciles) = (Usage::now()?, progress.reconciles());
    progress.until_goal().await;
    let done = Usage::now()?;
    before.figures(progress.reconciles() - reconciles, &done)
}

/// A running controller that has reconciled every object once.
async fn start(task: &Task, goal: Goal) -> Result<Arc<Progress>> {
    let progress = Arc::new(Progress::new(task.objects, goal));
    match task.contender {
        Contender::Ours => ours::control(Arc::clone(&progress)).await?,
        Contender::KubeRuntime => kube_runtime::control(Arc::clone(&progress)).await?,
        Contender::KubeRuntimeCleared => {
            bail!("kube-runtime with cleared managedFields is measured only as a cache")
        }
    }
    progress.until_all_reconciled().await;
    Ok(progress)
}

fn print_line(line: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}
