//! [`Comparison`]: all measurements, one process after the other.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::args::{Args, Contender, Work};
use crate::children::Child;
use crate::contender::line;
use crate::server::Lengths;
use crate::usage::Figures;

/// See the [module documentation](self).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Comparison {
    /// The length of objects in JSON.
    pub lengths: Lengths,
    /// Custom resources are cached.
    pub widgets: Pair,
    /// Custom resources are cached by kube-runtime with managedFields cleared.
    pub cleared_widgets: Figures,
    /// Pods are cached.
    pub pods: Pair,
    /// Pods are cached by kube-runtime with managedFields cleared.
    pub cleared_pods: Figures,
    /// Custom resources change and are reconciled.
    pub changes: Pair,
    /// Custom resources are reconciled without a change.
    pub repeats: Pair,
}

/// The same work with both runtimes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pair {
    /// kube-runtime.
    pub kube_runtime: Figures,
    /// This repository.
    pub ours: Figures,
}

impl Comparison {
    /// All figures as JSON.
    pub(crate) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

/// Starts a server and measures both runtimes.
pub(crate) async fn compare(args: &Args) -> Result<Comparison> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let numbers = [args.widgets, args.pods, args.controlled].map(|number| number.to_string());
    let [widgets, pods, controlled] = &numbers;
    let mut server = Child::start(
        &kubeconfig,
        &["serve", "--kubeconfig", &kubeconfig.to_string_lossy()]
            .into_iter()
            .chain(["--widgets", widgets, "--pods", pods, "--controlled", controlled])
            .collect::<Vec<_>>(),
    )?;
    let lengths = serde_json::from_str(&server.line().await?)?;
    let bench = Bench { kubeconfig: &kubeconfig, args };
    let comparison = Comparison {
        lengths,
        widgets: bench.cache(Work::CacheWidgets, args.widgets).await?,
        cleared_widgets: bench.cache_cleared(Work::CacheWidgets, args.widgets).await?,
        pods: bench.cache(Work::CachePods, args.pods).await?,
        cleared_pods: bench.cache_cleared(Work::CachePods, args.pods).await?,
        changes: bench.changes().await?,
        repeats: bench.repeats().await?,
    };
    server.end().await?;
    Ok(comparison)
}

struct Bench<'a> {
    kubeconfig: &'a Path,
    args: &'a Args,
}

impl Bench<'_> {
    async fn cache(&self, work: Work, objects: usize) -> Result<Pair> {
        Ok(Pair {
            kube_runtime: finish(self.start(Contender::KubeRuntime, work, objects, 0)?).await?,
            ours: finish(self.start(Contender::Ours, work, objects, 0)?).await?,
        })
    }

    async fn cache_cleared(&self, work: Work, objects: usize) -> Result<Figures> {
        finish(self.start(Contender::KubeRuntimeCleared, work, objects, 0)?).await
    }

    /// Runs both in turn several times, and returns the medians.
    async fn changes(&self) -> Result<Pair> {
        let (mut theirs, mut ours, mut round) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.args.runs {
            theirs.push(self.follow_changes(Contender::KubeRuntime, round).await?);
            ours.push(self.follow_changes(Contender::Ours, round + self.args.rounds).await?);
            round += 2 * self.args.rounds;
        }
        Ok(Pair { kube_runtime: median(theirs)?, ours: median(ours)? })
    }

    /// Runs both in turn several times, and returns the medians.
    async fn repeats(&self) -> Result<Pair> {
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.args.runs {
            theirs.push(self.repeat(Contender::KubeRuntime).await?);
            ours.push(self.repeat(Contender::Ours).await?);
        }
        Ok(Pair { kube_runtime: median(theirs)?, ours: median(ours)? })
    }

    /// Changes every object `rounds` times; the objects are in round `before`.
    async fn follow_changes(&self, contender: Contender, before: u64) -> Result<Figures> {
        let objects = self.args.controlled;
        let goal = before + self.args.rounds;
        let mut child = self.start(contender, Work::FollowChanges, objects, goal)?;
        let begun = child.line().await?;
        ensure!(begun == line::BEGUN, "unexpected output {begun:?}");
        let numbers = [objects.to_string(), (before + 1).to_string(), goal.to_string()];
        let [objects, from, to] = &numbers;
        let load = ["load", "--objects", objects, "--from", from, "--to", to];
        let load = Child::start(self.kubeconfig, &load)?;
        let figures = finish(child).await?;
        load.end().await?;
        Ok(figures)
    }

    async fn repeat(&self, contender: Contender) -> Result<Figures> {
        let Args { controlled, repeats, .. } = *self.args;
        finish(self.start(contender, Work::Repeat, controlled, repeats)?).await
    }

    fn start(&self, contender: Contender, work: Work, objects: usize, goal: u64) -> Result<Child> {
        let (contender, work) = (argument(&contender), argument(&work));
        let numbers = [objects.to_string(), goal.to_string()];
        let [objects, goal] = &numbers;
        let task = ["contend", "--contender", &contender, "--work", &work];
        let amounts = ["--objects", objects, "--goal", goal];
        Child::start(self.kubeconfig, &[&task[..], &amounts[..]].concat())
    }
}

/// The run with the median CPU time.
fn median(mut runs: Vec<Figures>) -> Result<Figures> {
    runs.sort_by(|one, other| one.cpu_micros().total_cmp(&other.cpu_micros()));
    let middle = runs.len() / 2;
    runs.into_iter().nth(middle).context("nothing was measured")
}

async fn finish(mut child: Child) -> Result<Figures> {
    let figures = serde_json::from_str(&child.line().await?)?;
    child.end().await?;
    Ok(figures)
}

/// The value on the command line.
fn argument(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
