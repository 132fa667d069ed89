//! The command line of this program, for users and for its own child processes.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures the cost of our controller runtime beside kube-runtime
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Number of cached custom resources
    #[arg(long, default_value_t = 100_000)]
    pub widgets: usize,
    /// Number of cached pods
    #[arg(long, default_value_t = 15_000)]
    pub pods: usize,
    /// Number of reconciled custom resources
    #[arg(long, default_value_t = 10_000)]
    pub controlled: usize,
    /// Number of changes of each of these
    #[arg(long, default_value_t = 5)]
    pub rounds: u64,
    /// Number of reconciles of each of these without a change
    #[arg(long, default_value_t = 50)]
    pub repeats: u64,
    /// Number of runs of both; the median is reported
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// Prints JSON instead of a table
    #[arg(long)]
    pub json: bool,
    /// Role of this process, if it is a child process
    #[command(subcommand)]
    pub role: Option<Role>,
}

/// The role of a child process.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// The server, with its objects
    #[command(hide = true)]
    Serve(Serve),
    /// The process that changes objects
    #[command(hide = true)]
    Load(Load),
    /// The measured process
    #[command(hide = true)]
    Contend(Task),
}

/// The objects of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Path of the kubeconfig to write
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// Number of custom resources to be cached
    #[arg(long)]
    pub widgets: usize,
    /// Number of pods
    #[arg(long)]
    pub pods: usize,
    /// Number of custom resources to be reconciled
    #[arg(long)]
    pub controlled: usize,
}

/// The changes to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Load {
    /// Number of objects
    #[arg(long)]
    pub objects: usize,
    /// The first round
    #[arg(long)]
    pub from: u64,
    /// The last round
    #[arg(long)]
    pub to: u64,
}

/// The measurement.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Task {
    /// The runtime
    #[arg(long)]
    pub contender: Contender,
    /// The work
    #[arg(long)]
    pub work: Work,
    /// Number of objects
    #[arg(long)]
    pub objects: usize,
    /// The last round, or the number of reconciles; see [`Work`]
    #[arg(long, default_value_t = 0)]
    pub goal: u64,
}

/// The measured runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// That of this repository.
    Ours,
    /// kube-runtime.
    KubeRuntime,
    /// kube-runtime with managedFields cleared; caches only.
    KubeRuntimeCleared,
}

/// The measured work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Custom resources are cached.
    CacheWidgets,
    /// Pods are cached.
    CachePods,
    /// Custom resources are reconciled when they change, until all are in the last round.
    FollowChanges,
    /// Custom resources are reconciled repeatedly.
    Repeat,
}
