//! Whether the caches of a manager are complete, and what keeps them from it: told to whoever asks
//! whether it is ready, and in the log.

use std::sync::Arc;

use informer::{InformerFactory, Report};
use keel::Tasks;
use tokio::sync::watch;

/// For a check: which caches are not complete yet, and why.
pub(super) fn all_complete(factory: &InformerFactory) -> Result<(), String> {
    let mut incomplete = Vec::new();
    for (scope, informer) in factory.informers() {
        if !informer.has_synced().get() {
            let report = informer.report();
            let trouble = report.borrow().trouble.clone();
            incomplete.push(format!("{scope}: {}", trouble.as_deref().unwrap_or("listing")));
        }
    }
    if incomplete.is_empty() { Ok(()) } else { Err(incomplete.join("; ")) }
}

/// Writes into the log whenever a cache cannot list or watch, and when it can again.
pub(super) fn log_troubles(factory: &Arc<InformerFactory>, tasks: &Tasks) {
    for (scope, informer) in factory.informers() {
        let (report, stop) = (informer.report(), tasks.shutdown());
        tasks.spawn("troubles", async move {
            tokio::select! {
                () = log_trouble(&scope, report) => {}
                () = stop => {}
            }
        });
    }
}

async fn log_trouble(scope: &str, mut report: watch::Receiver<Report>) {
    let mut told = None;
    while report.changed().await.is_ok() {
        let trouble = report.borrow_and_update().trouble.clone();
        if trouble == told {
            continue;
        }
        if let Some(trouble) = &trouble {
            tracing::warn!(resource = scope, "cannot list or watch: {trouble}");
        } else {
            tracing::info!(resource = scope, "lists and watches again");
        }
        told = trouble;
    }
}
