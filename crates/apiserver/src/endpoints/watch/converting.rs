//! Changes of kinds that others convert: a watcher waits for them before it sends events.

use super::{Converting, Watcher, event};
use crate::conversion;
use crate::watch_cache::Change;
use bytes::Bytes;
use machinery::{Reason, Status};
use std::sync::Arc;
use std::task::{Context, Poll};

impl Watcher {
    /// Begins to ask what `changes` look like.
    pub(super) fn convert(&self, changes: Vec<Arc<Change>>) -> (Vec<Arc<Change>>, Converting) {
        let cx = Arc::clone(&self.cx);
        let prefix = self.selection.prefix.clone();
        let inside = self.selection.looks_inside();
        let asked = changes.clone();
        let asking = async move { conversion::changes(&cx, &prefix, inside, &asked).await };
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
