//! Changes that need a conversion webhook or a costly selection: a watcher waits for their
//! conversion before it sends events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Watcher;
use super::event_form::EventForm;
use crate::cache::watch_cache::{Change, Entry};
use crate::endpoints::context::RequestContext;
use crate::endpoints::selection::{Selection, YieldBudget};
use crate::flow_control;
use crate::registry::conversion;
use crate::registry::conversion::ConvertedChange;
use machinery::{Reason, Status};

/// The number of changes that are compared with a costly selection at once. It is small, because
/// [`EventForm::changes`] sends one chunk at a time: the changes that do not fit into it are compared
/// again for the next chunk.
const COSTLY_BATCH: usize = 8;

/// The conversion of changes to the version of the request.
pub(super) type PendingConversion =
    Pin<Box<dyn Future<Output = Result<Vec<ConvertedChange>, Status>> + Send>>;

/// Removes the objects that are not selected from `converted`.
async fn selected(
    cx: &RequestContext,
    selection: &Selection,
    mut converted: Vec<ConvertedChange>,
) -> Vec<ConvertedChange> {
    let mut yield_budget = YieldBudget::default();
    for (old, new) in &mut converted {
        for entry in [old, new] {
            if yield_budget.should_yield(selection) {
                tokio::task::yield_now().await;
            }
            entry.take_if(|entry: &mut Arc<Entry>| !selection.selects(cx, entry));
        }
    }
    converted
}

impl Watcher {
    /// Starts the conversion of `changes`, or of the first [`COSTLY_BATCH`] if the selection is costly.
    /// Returns the changes that are being converted, and the conversion.
    pub(super) fn convert(
        &self,
        mut changes: Vec<Arc<Change>>,
    ) -> (Vec<Arc<Change>>, PendingConversion) {
        let cx = Arc::clone(&self.cx);
        let selection = Arc::clone(&self.selection);
        if selection.is_costly() {
            changes.truncate(COSTLY_BATCH);
        }
        let requested = changes.clone();
        let conversion = async move {
            let converted = if cx.scope.served.conversion.serves_stored_bytes() {
                requested.iter().map(|it| (it.old.clone(), it.new.clone())).collect()
            } else {
                let depends_on_version = selection.depends_on_version();
                conversion::changes(&cx.scope, &selection.prefix, depends_on_version, &requested)
                    .await?
            };
            if !selection.is_costly() {
                return Ok(converted);
            }
            let flow = flow_control::large_request_flow(&cx.scope.user);
            Ok(cx
                .scope
                .storage
                .offload
                .run(flow.as_deref(), selected(&cx, &selection, converted))
                .await)
        };
        (changes, Box::pin(conversion))
    }

    /// The events of converted changes, once the conversion has finished.
    pub(super) fn poll_converted<F: EventForm>(&mut self, cx: &mut Context<'_>) -> Poll<Option<F>> {
        let Some((changes, mut conversion)) = self.converting.take() else {
            return Poll::Ready(None);
        };
        match conversion.as_mut().poll(cx) {
            Poll::Ready(Ok(converted)) => {
                let events = F::changes(self, &changes, &converted);
                self.caught_up = false;
                Poll::Ready(events)
            }
            Poll::Ready(Err(status)) => {
                self.ended = true;
                // Upstream: the ERROR event has the message of the failed conversion, but always the
                // code 500 and the reason InternalError.
                let status = Status::new(500, Reason::InternalError, status.message);
                Poll::Ready(Some(F::error(self, &status)))
            }
            Poll::Pending if self.stop.as_mut().poll(cx).is_ready() => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.converting = Some((changes, conversion));
                Poll::Pending
            }
        }
    }
}
