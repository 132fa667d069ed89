//! WATCH: streams the changes of a collection until its timeout or a disconnect of the client.
//!
//! A watcher is a cursor: it has sent everything up to a revision and reads later changes from the
//! cache. It has no queue, so that a watcher whose client does not read holds only its state and
//! the next chunk. If the log no longer has the next changes when the client reads again, the watch
//! ends with 410 and the client must relist. If the user has too many unread responses, the watch
//! ends with 429.
//!
//! Events are encoded, or, for a client in this process, [items](item_events) that share the bytes
//! of the cache.

mod converted_changes;
mod encoded_events;
mod event;
mod event_form;
mod initial_events;
mod item_events;
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
use crate::flow_control::Charge;
use crate::http::body::Body;
use crate::http::negotiation::stream_not_acceptable;
use crate::http::response;
use crate::metrics::Counter;
use crate::plane::Plane;
use crate::registry::conversion::ConvertedChange;
use crate::request::options::parse_i64;
use crate::storage::catalog::ServedResource;
use crate::storage::unreadable_error;
use converted_changes::PendingConversion;
use event::Encoder;
use event_form::EventForm;
use initial_events::{EntryDropped, InitialEvents};
use keel::{ClockInstant, Sleep};
use large_event::LargeEvent;
use machinery::Status;
use store::Revision;
use watch_start::WatchStart;

/// The maximum number of changes that are read from the log at once.
const BATCH: usize = 256;

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
    let sends_items = cx.accept_items().is_some();
    let watcher = Watcher::new(cx, selection, &start).await?;
    if sends_items {
        return Ok(item_events::response(watcher, content_type));
    }
    Ok(response::bytes(200, content_type, Body::stream(watcher)))
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

/// The next action of a watcher that sends events in the form `F`.
enum WatchAction<F> {
    Send(F),
    /// Sends a further part of an event. The limit on unread responses is not checked: an event that
    /// has begun is completed.
    SendPart(F),
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
        unreadable_error::check_list(&cx.scope.served.cache.snapshot(), &selection.prefix)?;
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
    fn next_action<F: EventForm>(&mut self, elapsed: Duration) -> WatchAction<F> {
        // A partly sent event is completed first.
        if let Some(action) = F::next_part(self) {
            return action;
        }
        // Checked before changes are read, so that a watch with continuous changes ends too.
        if self.ended || elapsed >= self.timeout || self.plane.storage.tasks.is_stopping() {
            return WatchAction::End;
        }
        match self.initial_events() {
            Ok(Some(events)) => return WatchAction::Send(events),
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
                        return WatchAction::Send(F::bookmark(self, Bookmark::Regular));
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
                    let events = F::changes(self, &changes, &[]);
                    // The timer may have expired at the same time as the change.
                    self.caught_up &= events.is_some() && elapsed < self.timer_at;
                    if let Some(events) = events {
                        return WatchAction::Send(events);
                    }
                    if let Some(action) = F::next_part(self) {
                        return action;
                    }
                }
            }
        }
    }

    /// Ends the watch, because the log has changes only from `floor` on.
    fn expire<F: EventForm>(&mut self, floor: Revision) -> WatchAction<F> {
        self.ended = true;
        let message = format!("too old resource version: {} ({floor})", self.cursor);
        WatchAction::Send(F::error(self, &Status::expired(message)))
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

    /// The next chunk of initial events, then the bookmark after them; None once all are sent.
    fn initial_events<F: EventForm>(&mut self) -> Result<Option<F>, EntryDropped> {
        if !self.initial.is_empty() {
            return F::initial(self).map(Some);
        }
        if self.bookmark_due.take_if(|it| *it == Bookmark::AfterInitial).is_some() {
            self.events_sent.inc();
            return Ok(Some(F::bookmark(self, Bookmark::AfterInitial)));
        }
        Ok(None)
    }

    /// The object before and after a change, each if it is selected. `converted` are the changes in
    /// the version of the request, if they had to be converted.
    fn selected<'a>(
        &self,
        change: &'a Change,
        converted: Option<&'a ConvertedChange>,
    ) -> (Option<&'a Arc<Entry>>, Option<&'a Arc<Entry>>) {
        let (old, new) = match converted {
            Some((old, new)) => (old.as_ref(), new.as_ref()),
            None => (change.old.as_ref(), change.new.as_ref()),
        };
        // A costly selection has already been applied to `converted`.
        if self.selection.is_costly() {
            return (old, new);
        }
        let selects = |entry: &&Arc<Entry>| self.selection.selects(&self.cx, entry);
        (old.filter(selects), new.filter(selects))
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

    /// The next events.
    fn poll_events<F: EventForm>(&mut self, cx: &mut Context<'_>) -> Poll<Option<F>> {
        if std::mem::take(&mut self.caught_up)
            && self.bookmark_due.is_none()
            && self.is_waker_registered(cx)
            && self.changed.poll_changed(cx).is_pending()
        {
            return Poll::Pending;
        }
        loop {
            if let Some(events) = ready!(self.poll_converted::<F>(cx)) {
                return Poll::Ready(Some(events.limited(self)));
            }
            let elapsed = self.elapsed();
            match self.next_action::<F>(elapsed) {
                WatchAction::Send(events) => return Poll::Ready(Some(events.limited(self))),
                WatchAction::SendPart(part) => return Poll::Ready(Some(part)),
                WatchAction::End => return Poll::Ready(None),
                WatchAction::Wait => ready!(self.poll_wait(cx, elapsed)),
                WatchAction::Convert => {}
            }
        }
    }
}

impl Stream for Watcher {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_events(cx)
    }
}

/// The time, from the start of the watch, at which the next bookmark is due or the watch ends.
fn next_timer(elapsed: Duration, timeout: Duration, bookmarks: bool) -> Duration {
    let last = timeout.saturating_sub(BOOKMARK_BEFORE_END);
    if bookmarks && elapsed < last { last.min(elapsed + BOOKMARK_EVERY) } else { timeout }
}
