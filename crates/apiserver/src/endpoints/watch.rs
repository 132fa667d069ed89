//! WATCH: streams the changes of a collection until its timeout or a disconnect of the client.
//!
//! A watcher is a cursor: it has sent everything up to a revision and reads later changes from the
//! cache. It has no queue, so that a watcher whose client does not read holds only its state and
//! the next chunk. If the log no longer has the next changes when the client reads again, the watch
//! ends with 410 and the client must relist. If the user has too many unread responses, the watch
//! ends with 429.

mod converted_changes;
mod event;
mod initial_events;
mod large_event;
mod watch_start;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::Stream;
use http::Response;

use super::selection::Selection;
use crate::cache::watch_cache::{Change, Entry, Subscription};
use crate::endpoints::context::RequestContext;
use crate::endpoints::object_response;
use crate::flow_control::Charge;
use crate::http::body::Body;
use crate::http::negotiation::stream_not_acceptable;
use crate::http::response;
use crate::metrics::Counter;
use crate::plane::Plane;
use crate::registry::conversion::ConvertedChange;
use crate::request::options::parse_i64;
use crate::storage::catalog::ServedResource;
use converted_changes::PendingConversion;
use event::Encoder;
use initial_events::{EntryDropped, InitialEvents};
use keel::{ClockInstant, Sleep};
use large_event::LargeEvent;
use machinery::Status;
use store::Revision;
use watch_start::WatchStart;

/// The maximum number of changes that are read from the log at once.
const BATCH: usize = 256;

/// The size up to which small events are sent in one chunk.
const CHUNK: usize = 64 << 10;

/// The interval of bookmarks for a watcher that requests them.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// The time between the last bookmark, at which the next watch can start, and the timeout.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The minimum timeout in seconds of a watch that does not specify one; the maximum is twice this.
const DEFAULT_TIMEOUT: u64 = 1800;

/// Responds with a stream of events.
pub(crate) async fn watch(cx: RequestContext) -> Result<Response<Body>, Status> {
    watch_start::validate_options(&cx)?;
    let selection = Selection::parse(&cx)?;
    let start = WatchStart::parse(&cx)?;
    let content_type = cx.accepted.media.stream_type().ok_or_else(stream_not_acceptable)?;
    if start.consistent {
        cx.scope.catch_up().await?;
    } else if start.initial && start.revision > 0 {
        super::get::wait_until_not_older_than(&cx, start.revision).await?;
    }
    let watcher = Watcher::new(cx, selection, &start).await?;
    let body = Body::stream(watcher);
    Ok(response::bytes(200, content_type, body))
}

/// The state of one watch.
struct Watcher {
    cx: Arc<RequestContext>,
    /// The same values as in `cx`, to save an indirection per watcher and change.
    plane: Arc<Plane>,
    served: Arc<ServedResource>,
    selection: Arc<Selection>,
    /// The charge for the memory of a long query and its selectors.
    _charge: Option<Charge>,
    encoder: Encoder,
    /// The metric of sent events.
    events_sent: Counter,
    /// The objects that are sent before any change.
    initial: InitialEvents,
    /// The revision up to which all changes have been sent.
    cursor: Revision,
    changed: Subscription,
    /// A large event of which parts remain to be sent.
    large_event: Option<LargeEvent>,
    /// Changes whose conversion is pending.
    converting: Option<(Vec<Arc<Change>>, PendingConversion)>,
    bookmarks: bool,
    /// The start of the watch, on a clock that changes of the system time do not affect.
    started: ClockInstant,
    timeout: Duration,
    /// Expires when a bookmark is due or the timeout is reached.
    timer: Sleep,
    timer_at: Duration,
    /// A bookmark that is due, and is sent after all changes before it.
    bookmark_due: Option<Bookmark>,
    /// Completes when the server stops.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The waker that is registered with `timer` and `stop`.
    registered_waker: Option<Waker>,
    /// Whether all changes are sent and the timer has not expired: the log need not be read again.
    caught_up: bool,
    /// Whether the stream has ended.
    ended: bool,
}

/// The kind of a bookmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bookmark {
    /// All initial events have been sent.
    AfterInitial,
    /// A periodic bookmark.
    Regular,
}

/// The next action of a watcher.
enum WatchAction {
    Send(Bytes),
    /// Sends a further part of an event. The limit on unread responses is not checked: an event that
    /// has begun is completed.
    SendPart(Bytes),
    Wait,
    Convert,
    End,
}

impl Watcher {
    async fn new(
        cx: RequestContext,
        selection: Selection,
        start: &WatchStart,
    ) -> Result<Self, Status> {
        let charge = watch_start::charge(&cx, &selection)?;
        let timeout = match cx.query.get("timeoutSeconds").map_or(Ok(0), parse_i64)? {
            0 => DEFAULT_TIMEOUT + cx.scope.storage.entropy.below(DEFAULT_TIMEOUT),
            // A negative timeout ends the watch at once.
            seconds => u64::try_from(seconds).unwrap_or(0),
        };
        let timeout = Duration::from_secs(timeout);
        let bookmarks = cx.query.flag("allowWatchBookmarks");
        let changed = cx.scope.served.cache.subscribe();
        let applied = cx.scope.storage.cache.applied();
        let (initial, cursor) = if start.initial {
            let snapshot = cx.scope.served.cache.snapshot();
            let selected = selection.selected(&cx, &snapshot).await?;
            (InitialEvents::new(&cx, selected)?, snapshot.revision.max(applied))
        } else {
            // Without initial events and a revision, the watch starts at the current revision.
            (InitialEvents::empty(), if start.revision == 0 { applied } else { start.revision })
        };
        let stop = cx.scope.storage.tasks.shutdown();
        let timer_at = next_timer(Duration::ZERO, timeout, bookmarks);
        Ok(Self {
            encoder: Encoder::new(&cx)?,
            events_sent: cx.plane.metrics.watch_events(&cx.scope.path),
            started: cx.scope.storage.clock.instant(),
            timeout,
            timer: cx.scope.storage.clock.sleep(timer_at),
            timer_at,
            registered_waker: None,
            caught_up: false,
            bookmark_due: (start.initial && start.initial_bookmark)
                .then_some(Bookmark::AfterInitial),
            stop: Box::pin(stop),
            plane: Arc::clone(&cx.plane),
            served: Arc::clone(&cx.scope.served),
            cx: Arc::new(cx),
            selection: Arc::new(selection),
            _charge: charge,
            initial,
            cursor,
            changed,
            large_event: None,
            converting: None,
            bookmarks,
            ended: false,
        })
    }

    /// The time since the start of the watch.
    fn elapsed(&self) -> Duration {
        self.plane.storage.clock.elapsed_since(&self.started)
    }

    /// Determines the next action.
    fn next_action(&mut self, elapsed: Duration) -> WatchAction {
        // A partly sent event is completed first.
        if let Some(action) = self.next_part() {
            return action;
        }
        // Checked before changes are read, so that a watch with continuous changes ends too.
        if self.ended || elapsed >= self.timeout || self.plane.storage.tasks.is_stopping() {
            return WatchAction::End;
        }
        match self.initial_events() {
            Ok(Some(bytes)) => return WatchAction::Send(bytes),
            Ok(None) => {}
            Err(EntryDropped) => return self.expire(self.plane.storage.cache.applied()),
        }
        loop {
            self.changed.mark_seen();
            match self.served.cache.after(self.cursor, BATCH) {
                Err(too_old) => return self.expire(too_old.floor),
                // The CRD was deleted or changed: further changes are of another kind.
                Ok(changes) if changes.is_empty() && self.served.is_retired() => {
                    return WatchAction::End;
                }
                Ok(changes) if changes.is_empty() => {
                    if !self.advance_cursor() {
                        continue;
                    }
                    if self.bookmark_due.take().is_some() {
                        self.events_sent.inc();
                        return WatchAction::Send(self.encoder.bookmark(
                            &self.cx,
                            self.cursor,
                            Bookmark::Regular,
                        ));
                    }
                    return WatchAction::Wait;
                }
                Ok(changes)
                    if !self.served.conversion.serves_stored_bytes()
                        || self.selection.is_costly() =>
                {
                    self.converting = Some(self.convert(changes));
                    return WatchAction::Convert;
                }
                Ok(changes) => {
                    let events = self.events(&changes, &[]);
                    // The timer may have expired at the same time as the change.
                    self.caught_up &= events.is_some() && elapsed < self.timer_at;
                    if let Some(bytes) = events {
                        return WatchAction::Send(bytes);
                    }
                    if let Some(action) = self.next_part() {
                        return action;
                    }
                }
            }
        }
    }

    /// Ends the watch, because the log has changes only from `floor` on.
    fn expire(&mut self, floor: Revision) -> WatchAction {
        self.ended = true;
        let message = format!("too old resource version: {} ({floor})", self.cursor);
        WatchAction::Send(event::error(&self.cx, &Status::expired(message)))
    }

    /// Advances the cursor to the revision of the cache. Returns false if there are changes to send
    /// first.
    fn advance_cursor(&mut self) -> bool {
        let applied = self.plane.storage.cache.applied();
        // Read after `applied`: all changes up to `applied` are in the log by now.
        let has_no_changes = self.served.cache.after(self.cursor, 1).is_ok_and(|it| it.is_empty());
        if has_no_changes {
            self.cursor = self.cursor.max(applied);
        }
        has_no_changes
    }

    /// The events of the first of `changes`, up to the size of a chunk: an unread watch holds one
    /// chunk, and there may be many watches. `converted` are the changes in the version of the
    /// request, if they had to be converted.
    fn events(&mut self, changes: &[Arc<Change>], converted: &[ConvertedChange]) -> Option<Bytes> {
        let mut events = Vec::new();
        let mut size = 0;
        self.caught_up = changes.len() < BATCH;
        for (index, change) in changes.iter().enumerate() {
            let (mut old, mut new) = match converted.get(index) {
                Some((old, new)) => (old.as_ref(), new.as_ref()),
                None => (change.old.as_ref(), change.new.as_ref()),
            };
            // A costly selection has already been applied to `converted`.
            if !self.selection.is_costly() {
                let selects = |entry: &&Arc<Entry>| self.selection.selects(&self.cx, entry);
                (old, new) = (old.filter(selects), new.filter(selects));
            }
            let event = self.encoder.change(&self.cx, change, (old, new));
            if let Some((event, key)) = &event
                && event.len() >= object_response::LARGE_OBJECT
            {
                self.caught_up = false;
                // The events before it are sent first.
                if events.is_empty() {
                    self.cursor = change.revision;
                    self.large_event = Some(LargeEvent::new(change, *key));
                    self.events_sent.inc();
                }
                break;
            }
            self.cursor = change.revision;
            if let Some((event, _)) = event {
                size += event.len();
                events.push(event);
            }
            if size >= CHUNK {
                self.caught_up = false;
                break;
            }
        }
        self.events_sent.add(events.len() as u64);
        event::concatenated(events)
    }

    /// The next chunk of initial events, then the bookmark after them; None once all are sent.
    fn initial_events(&mut self) -> Result<Option<Bytes>, EntryDropped> {
        if !self.initial.is_empty() {
            let (mut out, mut read) = (Vec::new(), 0);
            while out.len() < CHUNK
                && read < initial_events::MAX_READ
                && let Some(entry) = self.initial.pop()
            {
                let entry = entry?;
                read += entry.len();
                self.encoder.added(&self.cx, &entry, &mut out);
                self.events_sent.inc();
            }
            return Ok(Some(out.into()));
        }
        if self.bookmark_due.take_if(|it| *it == Bookmark::AfterInitial).is_some() {
            self.events_sent.inc();
            let bookmark = self.encoder.bookmark(&self.cx, self.cursor, Bookmark::AfterInitial);
            return Ok(Some(bookmark));
        }
        Ok(None)
    }

    /// Whether the waker of `cx` is registered with `timer` and `stop`.
    fn is_waker_registered(&self, cx: &Context<'_>) -> bool {
        self.registered_waker.as_ref().is_some_and(|it| it.will_wake(cx.waker()))
    }

    /// Waits for a change, a due bookmark or the end of the watch.
    fn poll_wait(&mut self, cx: &mut Context<'_>, elapsed: Duration) -> Poll<()> {
        if self.changed.poll_changed(cx).is_ready() {
            return Poll::Ready(());
        }
        // Both remain registered with this waker: with a thousand watches, to poll them again for
        // every change would be a large part of the cost of a change.
        if self.is_waker_registered(cx) && elapsed < self.timer_at {
            return Poll::Pending;
        }
        if self.stop.as_mut().poll(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(());
        }
        if Pin::new(&mut self.timer).poll(cx).is_pending() {
            self.registered_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.registered_waker = None;
        let elapsed = self.elapsed();
        if elapsed >= self.timeout {
            self.ended = true;
            return Poll::Ready(());
        }
        self.timer_at = next_timer(elapsed, self.timeout, self.bookmarks);
        self.timer = self.plane.storage.clock.sleep(self.timer_at.saturating_sub(elapsed));
        self.bookmark_due = self.bookmarks.then_some(Bookmark::Regular);
        Poll::Ready(())
    }
}

impl Stream for Watcher {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if std::mem::take(&mut self.caught_up)
            && self.bookmark_due.is_none()
            && self.is_waker_registered(cx)
            && self.changed.poll_changed(cx).is_pending()
        {
            return Poll::Pending;
        }
        loop {
            if let Some(bytes) = ready!(self.poll_converted(cx)) {
                return Poll::Ready(Some(self.limit_unread(bytes)));
            }
            let elapsed = self.elapsed();
            match self.next_action(elapsed) {
                WatchAction::Send(bytes) => return Poll::Ready(Some(self.limit_unread(bytes))),
                WatchAction::SendPart(bytes) => return Poll::Ready(Some(bytes)),
                WatchAction::End => return Poll::Ready(None),
                WatchAction::Wait => ready!(self.poll_wait(cx, elapsed)),
                WatchAction::Convert => {}
            }
        }
    }
}

/// The time, from the start of the watch, at which the next bookmark is due or the watch ends.
fn next_timer(elapsed: Duration, timeout: Duration, bookmarks: bool) -> Duration {
    let last = timeout.saturating_sub(BOOKMARK_BEFORE_END);
    if bookmarks && elapsed < last { last.min(elapsed + BOOKMARK_EVERY) } else { timeout }
}
