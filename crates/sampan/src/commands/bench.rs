//! `sampan bench`: measures the speed of any Kubernetes API server under load.
//!
//! All objects are in a namespace and an API group of the run, which are removed at the end, also
//! after an interruption.

mod endpoint;
mod fixtures;
mod pool;
mod load;
mod processes;
mod objects;
mod report;
mod session;
mod registration;
mod workload;
mod fan_out;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;

use crate::kubeconfig;
use crate::output::{print_line, print_note};
use crate::stop_signals::StopSignals;
use endpoint::Endpoint;
use fixtures::Fixtures;
use keel::{Entropy, Tasks};
use load::Bound;
use machinery::Value;
use objects::Sample;
use pool::Pool;
use processes::Processes;
use report::Report;
use session::{Session, progress};
use workload::Workload;

const EXAMPLES: &str = "Examples:
  sampan bench                                       everything, on the current context's server
  sampan bench --pid $(pgrep -xo sampan)             with the server's CPU time and memory
  sampan bench --operations create,get --concurrency 16 --resources configmaps
  sampan bench --operations watch --watchers 1000    each change is sent to 1,000 watchers
  sampan bench --operations get --concurrency 1 --interval 5 --requests 2000
                                                     the latency of one client, beside other load
  sampan bench --context kind-test --seconds 3 -o json > kind.json

The objects are in a namespace of the run, which is removed at the end. CPU time is counted in
ticks of 10 ms: raise --objects for exact figures.";

/// The singular name of the custom resource that is read and written.
const CUSTOM_RESOURCE: &str = "widget";

/// The limit of waiting for connections to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The number of failures that are printed.
const PRINTED_FAILURES: usize = 5;

/// Measure the speed of an API server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// Kubeconfig of the server [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Operations to measure
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
          default_values_t = Operation::value_variants().to_vec(), hide_default_value = true)]
    operations: Vec<Operation>,
    /// Resources to read and write: config maps of 1 KiB, custom resources of about that size
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum,
          default_values_t = Resource::value_variants().to_vec(), hide_default_value = true)]
    resources: Vec<Resource>,
    /// Numbers of concurrent clients; each client sends its next request after the last response
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 16, 64],
          value_parser = count(1, 10_000))]
    concurrency: Vec<usize>,
    /// Time between the beginnings of a client's gets, lists, updates and patches: a client that pauses
    /// measures the effect of other load
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=60_000))]
    interval: u64,
    /// Numbers of watchers that receive each change
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1, 100, 1000],
          value_parser = count(1, 10_000))]
    watchers: Vec<usize>,
    /// Number of objects, at least one for each client
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count(1, 10_000_000))]
    objects: usize,
    /// Maximum number of gets, updates and patches of a row, and twenty times that of lists
    /// [default: the number of objects]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Maximum duration of a row
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Number of custom resource definitions to register
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    definitions: u64,
    /// Number of connections for requests; watchers have separate ones
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = count(1, 64))]
    connections: usize,
    /// Process of the server, whose CPU time and memory are measured; repeat it for each process
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Allow a server on another machine
    #[arg(long)]
    allow_remote: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// The operations that can be measured.
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
    /// From a change until each watcher has received the event.
    Watch,
    /// From the creation of a CRD until its objects can be listed and created.
    Register,
}

/// The resources that can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resource {
    /// Config maps.
    Configmaps,
    /// Custom resources.
    Widgets,
}

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for people.
    Table,
    /// JSON for programs.
    Json,
}

impl Operation {
    /// The name in the table.
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

    /// Whether the operation is measured with several numbers of concurrent clients.
    fn has_clients(self) -> bool {
        !matches!(self, Self::Watch | Self::Register)
    }
}

/// Measures, prints the report, and fails if any operation failed.
pub(crate) async fn run(args: BenchArgs) -> Result<()> {
    let (report, ended) = measure(&args, interrupted).await?;
    if !report.rows.is_empty() {
        print_line(&match args.output {
            Format::Table => format!("{} ({})\n{}", report.server, report.version, report.table()),
            Format::Json => serde_json::to_string_pretty(&report)?,
        })?;
    }
    for failure in report.failures.iter().take(PRINTED_FAILURES) {
        print_note(&format!("failed: {failure}"));
    }
    ended?;
    if report.failed() > 0 {
        bail!("{} operations failed; the first ones are listed above", report.failed());
    }
    Ok(())
}

/// Returns the report, and whether the run was complete; fails if nothing could be measured. The
/// first interruption ends the measurement, the second one the removal of objects.
async fn measure(
    args: &BenchArgs,
    interrupted: impl AsyncFn() -> Result<()>,
) -> Result<(Report, Result<()>)> {
    let endpoint = endpoint(args)?;
    let processes = Processes::new(args.pid.clone())?;
    let tasks = Tasks::new();
    let concurrency = args.concurrency.iter().copied().max().unwrap_or(1);
    let pool = Pool::connect(&endpoint, args.connections, concurrency, &tasks).await?;
    let mut report = Report::new(pool.url().to_owned(), version(&pool).await?);
    let fixtures = Fixtures::new(&pool, &Entropy::system());
    let objects = args.objects.max(concurrency);
    let session = Session {
        endpoint: &endpoint,
        pool: &pool,
        fixtures: &fixtures,
        processes: &processes,
        tasks: &tasks,
        objects,
        bound: Bound {
            count: args.requests.unwrap_or(objects as u64),
            time: Duration::from_secs(args.seconds),
            interval: Duration::from_millis(args.interval),
        },
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
        result = remove(&fixtures) => result,
        result = interrupted() => result.and_then(|()| {
            Err(anyhow!("namespace {} and API group {} are left", fixtures.namespace, fixtures.group))
        }),
    };
    drop(pool);
    if let Err(error) = tasks.stop(CLOSE_TIMEOUT).await {
        tracing::debug!(%error, "connections were cut");
    }
    let ended = match (measured, removed) {
        (Err(measured), Err(removed)) => Err(removed.context(format!("{measured:#}"))),
        (measured, removed) => measured.and(removed),
    };
    Ok((report, ended))
}

async fn measure_all(args: &BenchArgs, session: &Session<'_>, report: &mut Report) -> Result<()> {
    let fixtures = session.fixtures;
    let measures = |operation| args.operations.contains(&operation);
    fixtures.create_namespace().await?;
    if measures(Operation::Register) {
        registration::run(session, args.definitions, report).await?;
    }
    let custom = Sample::custom(&fixtures.group, CUSTOM_RESOURCE, &fixtures.namespace);
    if measures(Operation::Watch) || args.resources.contains(&Resource::Widgets) {
        fixtures.create_crd(CUSTOM_RESOURCE).await?;
        fixtures.until_served(async || session.pool.drain(&custom.collection).await).await?;
    }
    for resource in unique(&args.resources) {
        let sample = match resource {
            Resource::Configmaps => &Sample::config_map(&fixtures.namespace),
            Resource::Widgets => &custom,
        };
        let workload = Workload { session, sample, operations: &args.operations };
        if args.operations.iter().any(|it| it.has_clients()) {
            workload.run(&unique(&args.concurrency), report).await?;
        }
    }
    if measures(Operation::Watch) {
        for watchers in unique(&args.watchers) {
            // Only this run writes custom resources of the group, so it caused every event.
            fan_out::run(session, &custom, watchers, report).await?;
        }
    }
    Ok(())
}

async fn remove(fixtures: &Fixtures<'_>) -> Result<()> {
    fixtures.remove().await?;
    if !fixtures.namespace_is_deleted().await {
        print_note(&format!(
            "namespace {} is empty and stays Terminating until the server's namespace controller, \
             if it runs one, removes it",
            fixtures.namespace
        ));
    }
    Ok(())
}

/// The endpoint of the kubeconfig's context. A remote server is refused unless it is allowed.
fn endpoint(args: &BenchArgs) -> Result<Endpoint> {
    let path = match &args.kubeconfig {
        Some(path) => path.clone(),
        None => kubeconfig::default_path()?,
    };
    let endpoint = Endpoint::new(&kubeconfig::resolve(&path, args.context.as_deref())?)?;
    if !endpoint.is_loopback() && !args.allow_remote {
        bail!(
            "{} is not on this machine, and a bench is a heavy load for its other users: add \
             --allow-remote to run it nevertheless, or choose another --context",
            endpoint.url
        );
    }
    Ok(endpoint)
}

async fn version(pool: &Pool) -> Result<String> {
    let response = pool.get("/version").await.context("the server does not report its version")?;
    let version: Value = serde_json::from_slice(&response).context("its version is not JSON")?;
    Ok(version["gitVersion"].as_str().unwrap_or("unknown version").to_owned())
}

/// Resolves at the next signal to stop.
async fn interrupted() -> Result<()> {
    StopSignals::listen()?.recv().await;
    Ok(())
}

/// The number of rows of the report.
fn rows(args: &BenchArgs) -> usize {
    let operations = unique(&args.operations);
    let loops = operations.iter().filter(|it| it.has_clients()).count();
    let mut rows = loops * unique(&args.resources).len() * unique(&args.concurrency).len();
    if operations.contains(&Operation::Watch) {
        rows += unique(&args.watchers).len();
    }
    rows + usize::from(operations.contains(&Operation::Register))
}

/// The values without repetitions, in the order of their first occurrences.
fn unique<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut unique = Vec::with_capacity(values.len());
    for value in values {
        if !unique.contains(value) {
            unique.push(*value);
        }
    }
    unique
}

/// A parser of numbers between two limits, inclusive.
fn count(least: usize, most: usize) -> impl Fn(&str) -> Result<usize> + Clone + Send + Sync {
    move |text| {
        let number: usize = text.parse().context("it is not a number")?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        bail!("it is not between {least} and {most}")
    }
}
