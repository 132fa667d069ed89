//! `sampan bench`: drives load at any Kubernetes API server and says how fast it is.
//!
//! Everything happens in a namespace and an API group of the run's own, which are removed at the
//! end, also when it is interrupted.

mod endpoint;
mod pool;
mod load;
mod processes;
mod objects;
mod stage;
mod report;
mod session;
mod registration;
mod workload;
mod fan_out;

#[cfg(test)]
mod tests;

use crate::kubeconfig;
use crate::output::{note, say};
use crate::stop_signals::StopSignals;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use endpoint::Endpoint;
use keel::{Entropy, Tasks};
use load::Bound;
use machinery::Value;
use objects::Sample;
use pool::Pool;
use processes::Processes;
use report::Report;
use session::{Session, progress};
use stage::Stage;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use workload::Workload;

const EXAMPLES: &str = "Examples:
  sampan bench                                       everything, on the current context's server
  sampan bench --pid $(pgrep -xo sampan)             with the server's CPU time and memory
  sampan bench --operations create,get --concurrency 16 --resources configmaps
  sampan bench --operations watch --watchers 1000    one change to each of 1,000 watchers
  sampan bench --context kind-test --seconds 3 -o json > kind.json

The objects live in a namespace of their own, which is removed at the end. CPU time is counted in
ticks of 10 ms: raise --objects for exact figures.";

/// The custom resource that is read and written.
const CUSTOM: &str = "widget";

/// How long to wait for connections to close.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many failures are told.
const TOLD_FAILURES: usize = 5;

/// Measure how fast an API server is
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// The kubeconfig that names the server [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context to use [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// What to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
          default_values_t = Operation::value_variants().to_vec(), hide_default_value = true)]
    operations: Vec<Operation>,
    /// What to read and write: config maps of 1 KiB, custom resources about as large
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
          default_values_t = Resource::value_variants().to_vec(), hide_default_value = true)]
    resources: Vec<Resource>,
    /// How many clients at once, each sending its next request when it has its answer
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 16, 64],
          value_parser = count(1, 1024))]
    concurrency: Vec<usize>,
    /// How many watchers see each change
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 100, 1000],
          value_parser = count(1, 10_000))]
    watchers: Vec<usize>,
    /// How many objects there are, at least one for each client, and how many operations a row
    /// has at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1, 10_000_000))]
    objects: usize,
    /// How long a row takes at most
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How many definitions are registered
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    definitions: u64,
    /// How many connections requests are spread over; watchers have their own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count(1, 64))]
    connections: usize,
    /// A process of the server, whose CPU time and memory to measure; once for each of them
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Allow a server on another machine
    #[arg(long)]
    allow_remote: bool,
    /// How to print the figures
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Operation {
    /// POST.
    Create,
    /// GET of one object.
    Get,
    /// GET of all objects.
    List,
    /// PUT with a resource version.
    Update,
    /// PATCH with a JSON merge patch.
    Patch,
    /// DELETE of one object.
    Delete,
    /// A change until each watcher has its event.
    Watch,
    /// A definition until its objects can be listed and created.
    Register,
}

/// What can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resource {
    /// Config maps.
    Configmaps,
    /// Custom resources.
    Widgets,
}

/// How figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For machines.
    Json,
}

impl Operation {
    /// What the table calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Watch => "watch",
            Self::Register => "register",
        }
    }

    /// Whether it is done to objects by a number of clients.
    fn has_clients(self) -> bool {
        !matches!(self, Self::Watch | Self::Register)
    }
}

/// Measures, prints, and fails if any operation did.
pub(crate) async fn run(args: BenchArgs) -> Result<()> {
    let (report, ended) = measure(&args, interrupted).await?;
    if !report.rows.is_empty() {
        say(&match args.output {
            Format::Table => format!("{} ({})\n{}", report.server, report.version, report.table()),
            Format::Json => serde_json::to_string_pretty(&report)?,
        })?;
    }
    for failure in report.failures.iter().take(TOLD_FAILURES) {
        note(&format!("failed: {failure}"));
    }
    ended?;
    if report.failed() > 0 {
        bail!("{} operations failed; the first ones are told above", report.failed());
    }
    Ok(())
}

/// What was measured, and whether that is all; fails where nothing could be. The first
/// interruption ends the measuring, the second one the cleaning up.
async fn measure(
    args: &BenchArgs,
    interrupted: impl AsyncFn() -> Result<()>,
) -> Result<(Report, Result<()>)> {
    let endpoint = endpoint(args)?;
    let processes = Processes::new(args.pid.clone())?;
    let tasks = Tasks::new();
    let at_once = args.concurrency.iter().copied().max().unwrap_or(1);
    let pool = Pool::connect(&endpoint, args.connections, at_once, &tasks).await?;
    let mut report = Report::new(pool.url().to_owned(), version(&pool).await?);
    let stage = Stage::new(&pool, &Entropy::system());
    let objects = args.objects.max(at_once);
    let session = Session {
        endpoint: &endpoint,
        pool: &pool,
        stage: &stage,
        processes: &processes,
        tasks: &tasks,
        bound: Bound { count: objects as u64, time: Duration::from_secs(args.seconds) },
        progress: progress(rows(args)),
        marks: AtomicU64::new(1),
    };
    let measured = tokio::select! {
        result = Box::pin(measure_all(args, &session, &mut report)) => result,
        result = interrupted() => result.and_then(|()| Err(anyhow!("interrupted"))),
    };
    session.progress.finish_and_clear();
    report.sort();
    let removed = tokio::select! {
        result = remove(&stage) => result,
        result = interrupted() => result.and_then(|()| {
            Err(anyhow!("namespace {} and API group {} are left", stage.namespace, stage.group))
        }),
    };
    drop(pool);
    if let Err(error) = tasks.stop(PATIENCE).await {
        tracing::debug!(%error, "connections were cut");
    }
    let ended = match (measured, removed) {
        (Err(measured), Err(removed)) => Err(removed.context(format!("{measured:#}"))),
        (measured, removed) => measured.and(removed),
    };
    Ok((report, ended))
}

async fn measure_all(args: &BenchArgs, session: &Session<'_>, report: &mut Report) -> Result<()> {
    let stage = session.stage;
    let measures = |operation| args.operations.contains(&operation);
    stage.create_namespace().await?;
    if measures(Operation::Register) {
        registration::run(session, args.definitions, report).await?;
    }
    let custom = Sample::custom(&stage.group, CUSTOM, &stage.namespace);
    if measures(Operation::Watch) || args.resources.contains(&Resource::Widgets) {
        stage.create_definition(CUSTOM).await?;
        stage.until_served(async || session.pool.drain(&custom.collection).await).await?;
    }
    for resource in unique(&args.resources) {
        let sample = match resource {
            Resource::Configmaps => &Sample::config_map(&stage.namespace),
            Resource::Widgets => &custom,
        };
        let workload = Workload { session, sample, operations: &args.operations };
        if args.operations.iter().any(|it| it.has_clients()) {
            workload.run(&unique(&args.concurrency), report).await?;
        }
    }
    if measures(Operation::Watch) {
        for watchers in unique(&args.watchers) {
            // Nobody else writes custom resources of this group, so every event is one of ours.
            fan_out::run(session, &custom, watchers, report).await?;
        }
    }
    Ok(())
}

async fn remove(stage: &Stage<'_>) -> Result<()> {
    stage.remove().await?;
    if !stage.is_gone().await {
        note(&format!(
            "namespace {} is empty and stays Terminating until the server's namespace controller \
             removes it, if it runs one",
            stage.namespace
        ));
    }
    Ok(())
}

/// Where the server is; refuses one that others may depend on.
fn endpoint(args: &BenchArgs) -> Result<Endpoint> {
    let path = match &args.kubeconfig {
        Some(path) => path.clone(),
        None => kubeconfig::default_path()?,
    };
    let endpoint = Endpoint::new(&kubeconfig::resolve(&path, args.context.as_deref())?)?;
    if !endpoint.is_loopback() && !args.allow_remote {
        bail!(
            "{} is not on this machine, and a bench is a heavy load for those who depend on it: \
             add --allow-remote if that is what you want, or choose another --context",
            endpoint.url
        );
    }
    Ok(endpoint)
}

async fn version(pool: &Pool) -> Result<String> {
    let answer = pool.get("/version").await.context("the server does not tell its version")?;
    let version: Value = serde_json::from_slice(&answer).context("its version is not JSON")?;
    Ok(version["gitVersion"].as_str().unwrap_or("unknown version").to_owned())
}

/// Resolves at the first signal to stop from now on.
async fn interrupted() -> Result<()> {
    StopSignals::listen()?.recv().await;
    Ok(())
}

/// How many rows there will be.
fn rows(args: &BenchArgs) -> usize {
    let operations = unique(&args.operations);
    let loops = operations.iter().filter(|it| it.has_clients()).count();
    let mut rows = loops * unique(&args.resources).len() * unique(&args.concurrency).len();
    if operations.contains(&Operation::Watch) {
        rows += unique(&args.watchers).len();
    }
    rows + usize::from(operations.contains(&Operation::Register))
}

/// Each value once, where it first stands.
fn unique<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut unique = Vec::with_capacity(values.len());
    for value in values {
        if !unique.contains(value) {
            unique.push(*value);
        }
    }
    unique
}

/// Reads a number between these two.
fn count(least: usize, most: usize) -> impl Fn(&str) -> Result<usize> + Clone + Send + Sync {
    move |text| {
        let number: usize = text.parse().context("it is not a number")?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        bail!("it is not between {least} and {most}")
    }
}
