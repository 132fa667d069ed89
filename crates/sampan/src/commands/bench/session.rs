//! [`Session`]: the state that all measurements of a run share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::endpoint::Endpoint;
use super::fixtures::Fixtures;
use super::load::{Bound, Outcome};
use super::pool::Pool;
use super::processes::Processes;
use super::report::{Report, Title, Usage};
use keel::Tasks;

/// See the [module documentation](self).
pub(crate) struct Session<'a> {
    /// The server, for measurements with separate connections.
    pub endpoint: &'a Endpoint,
    /// The connections for requests.
    pub pool: &'a Pool,
    /// The namespace and the CRDs of the run.
    pub fixtures: &'a Fixtures<'a>,
    /// The processes whose CPU time and memory are measured.
    pub processes: &'a Processes,
    /// The parent of all tasks.
    pub tasks: &'a Tasks,
    /// The number of objects of a resource.
    pub objects: usize,
    /// The limits of every row.
    pub bound: Bound,
    /// The progress bar.
    pub progress: ProgressBar,
    /// The next result of [`Session::next_mark`].
    pub marks: AtomicU64,
}

impl Session<'_> {
    /// Runs `work` and adds a row to the report.
    pub(crate) async fn measure(
        &self,
        report: &mut Report,
        title: Title,
        work: impl Future<Output = Outcome>,
    ) {
        let Title { resource, operation, concurrency } = title;
        self.progress.set_message(format!("{operation} {resource}, {concurrency} at once"));
        let before = self.processes.cpu_times();
        let outcome = work.await;
        let after = self.processes.cpu_times();
        let usage = Usage { before, after, memory: self.processes.memory() };
        report.add(title, outcome, &usage);
        self.progress.inc(1);
    }

    /// A unique number for the body of a write: a server may skip a write without changes.
    pub(crate) fn next_mark(&self) -> u64 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }
}

/// A progress bar on standard error that shows the current row; hidden unless it is a terminal.
pub(crate) fn progress(rows: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(rows as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} ({elapsed})")
        .expect("the template is valid");
    bar.set_style(style);
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
