//! What can be asked of this program, by people and by itself.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures what our controller runtime costs beside kube-runtime
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// How many custom resources are cached
    #[arg(long, default_value_t = 100_000)]
    pub widgets: usize,
    /// How many pods are cached
    #[arg(long, default_value_t = 15_000)]
    pub pods: usize,
    /// How many custom resources are reconciled
    #[arg(long, default_value_t = 10_000)]
    pub controlled: usize,
    /// How often each of these is changed
    #[arg(long, default_value_t = 5)]
    pub rounds: u64,
    /// How often each of these is reconciled without being changed
    #[arg(long, default_value_t = 50)]
    pub repeats: u64,
    /// How often both of that is measured; the median counts
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Prints JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// What this process is, if it is not the one that compares
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// What this program starts itself as.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// The server, with its objects
    #[command(hide = true)]
    Serve(Serve),
    /// Who changes objects
    #[command(hide = true)]
    Load(Load),
    /// Who is measured
    #[command(hide = true)]
    Contend(Task),
}

/// What the server has.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to write how it is reached
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// How many custom resources are there to be cached
    #[arg(long)]
    pub widgets: usize,
    /// How many pods
    #[arg(long)]
    pub pods: usize,
    /// How many custom resources are there to be reconciled
    #[arg(long)]
    pub controlled: usize,
}

/// Which changes to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    /// How many objects there are
    #[arg(long)]
    pub objects: usize,
    /// The first round
    #[arg(long)]
    pub from: u64,
    /// The last round
    #[arg(long)]
    pub to: u64,
}

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Task {
    /// Who does it
    #[arg(long)]
    pub contender: Contender,
    /// What
    #[arg(long)]
    pub work: Work,
    /// With how many objects
    #[arg(long)]
    pub objects: usize,
    /// Until which round, or how often; see [`Work`]
    #[arg(long, default_value_t = 0)]
    pub goal: u64,
}

/// Whose runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// This repository's.
    Ours,
    /// The crate.
    KubeRuntime,
    /// The crate, told to forget managedFields; only caches.
    KubeRuntimeCleared,
}

/// What is done with the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Custom resources are cached.
    CacheWidgets,
    /// Pods are cached.
    CachePods,
    /// Custom resources are reconciled when they change, until all are in the last round.
    FollowChanges,
    /// Custom resources are reconciled again and again, so often each.
    Repeat,
}
