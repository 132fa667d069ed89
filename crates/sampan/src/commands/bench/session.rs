//! [`Session`]: what all measurements of a run have in common.

use super::endpoint::Endpoint;
use super::load::{Bound, Outcome};
use super::pool::Pool;
use super::processes::Processes;
use super::report::{Report, Title, Usage};
use super::stage::Stage;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use keel::Tasks;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See the [module documentation](self).
pub(crate) struct Session<'a> {
    /// Where the server is, for those who need connections of their own.
    pub endpoint: &'a Endpoint,
    /// What requests go through.
    pub pool: &'a Pool,
    /// Where objects are made.
    pub stage: &'a Stage<'a>,
    /// What is measured beside time.
    pub processes: &'a Processes,
    /// Who the tasks belong to.
    pub tasks: &'a Tasks,
    /// What every row is limited to.
    pub bound: Bound,
    /// For people who wait.
    pub progress: ProgressBar,
    /// How many marks were handed out.
    pub marks: AtomicU64,
}

impl Session<'_> {
    /// Measures some work and reports it.
    pub(crate) async fn measure(
        &self,
        report: &mut Report,
        title: Title,
        work: impl Future<Output = Outcome>,
    ) {
        let Title { resource, operation, concurrency } = title;
        self.progress.set_message(format!("{operation} {resource}, {concurrency} at once"));
        let before = self.processes.read();
        let outcome = work.await;
        let after = self.processes.read();
        let usage = Usage { before, after, memory: self.processes.memory() };
        report.add(title, outcome, &usage);
        self.progress.inc(1);
    }

    /// A number that no write had before: a server may skip a write that changes nothing.
    pub(crate) fn next_mark(&self) -> u64 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }
}

/// A line on standard error that shows which of the rows is being measured; on a terminal only.
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
