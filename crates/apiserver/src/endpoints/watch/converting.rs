//! Changes of kinds that others convert, and changes that take long to compare with a selection: a
//! watcher waits for them before it sends events.

use super::{Converting, Watcher, event};
use crate::cache::watch_cache::{Change, Entry};
use crate::endpoints::context::RequestContext;
use crate::endpoints::selection::{Pace, Selection};
use crate::flow_control;
use crate::registry::conversion;
use crate::registry::conversion::Sight;
use bytes::Bytes;
use machinery::{Reason, Status};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The number of changes that are compared with a costly selection at once. Those that do not fit
/// into what is sent next are compared again.
const COSTLY_BATCH: usize = 8;

/// The sights without the objects that are not selected.
async fn selected(
    cx: &RequestContext,
    selection: &Selection,
    mut sights: Vec<Sight>,
) -> Vec<Sight> {
    let mut pace = Pace::default();
    for (old, new) in &mut sights {
        for sight in [old, new] {
            if pace.is_due(selection) {
                tokio::task::yield_now().await;
            }
            sight.take_if(|entry: &mut Arc<Entry>| !selection.sees(cx, entry));
        }
    }
    sights
}

impl Watcher {
    /// Begins to ask what the first of `changes` look like.
    pub(super) fn convert(&self, mut changes: Vec<Arc<Change>>) -> (Vec<Arc<Change>>, Converting) {
        let cx = Arc::clone(&self.cx);
        let selection = Arc::clone(&self.selection);
        if selection.is_costly() {
            changes.truncate(COSTLY_BATCH);
        }
        let asked = changes.clone();
        let asking = async move {
            let sights = if cx.scope.served.conversion.serves_stored_bytes() {
                asked.iter().map(|it| (it.old.clone(), it.new.clone())).collect()
            } else {
                let inside = selection.looks_inside();
                conversion::changes(&cx.scope, &selection.prefix, inside, &asked).await?
            };
            if !selection.is_costly() {
                return Ok(sights);
            }
            let flow = flow_control::large_request_flow(&cx.scope.user);
            Ok(cx
                .scope
                .storage
                .offload
                .run(flow.as_deref(), selected(&cx, &selection, sights))
                .await)
        };
        (changes, Box::pin(asking))
    }

    /// What came of asking, if there is something to tell.
    pub(super) fn poll_converted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some((changes, mut asking)) = self.converting.take() else { return Poll::Ready(None) };
        match asking.as_mut().poll(cx) {
            Poll::Ready(Ok(sights)) => {
                let told = self.events(&changes, &sights);
                self.caught_up = false;
                Poll::Ready(told)
            }
            Poll::Ready(Err(status)) => {
                self.ended = true;
                // Upstream: a watch says what a request says, with a reason.
                let status = Status::new(500, Reason::InternalError, status.message);
                Poll::Ready(Some(event::error(&self.cx, &status)))
            }
            Poll::Pending if self.stop.as_mut().poll(cx).is_ready() => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.converting = Some((changes, asking));
                Poll::Pending
            }
        }
    }
}
