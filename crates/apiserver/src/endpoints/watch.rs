//! WATCH: the changes of a collection, as they happen, until the client or the time-out ends it.
//!
//! A watcher is a cursor: it has sent everything up to a revision and asks the cache for what came
//! after. It holds no queue, so one that does not read costs its place and the piece that is to be
//! sent next; when it reads again and the log has moved on, it is told to list again (410). If the
//! user has too many answers that are not read, it ends with 429.

mod converting;
mod event;
mod initial;
mod large_event;
mod start;

use super::selection::Selection;
use crate::cache::catalog::Served;
use crate::cache::watch_cache::{Change, Entry, Subscription};
use crate::endpoints::answer;
use crate::endpoints::context::RequestContext;
use crate::flow_control::Charge;
use crate::http::body::Body;
use crate::http::negotiation::not_a_stream;
use crate::http::response;
use crate::metrics::Count;
use crate::plane::Plane;
use crate::registry::conversion::Sight;
use crate::request::options::parse_i64;
use bytes::Bytes;
use event::Encoder;
use futures_util::stream::Stream;
use http::Response;
use initial::{Forgotten, Initial};
use keel::{Moment, Sleep};
use large_event::LargeEvent;
use machinery::Status;
use start::Start;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use store::Revision;

/// How many changes are looked at before they are sent.
const BATCH: usize = 256;

/// Several small events are sent together up to this size.
const CHUNK: usize = 64 << 10;

/// How often a watcher that wants to know is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// A last bookmark comes this long before the time-out, so that the next watch begins there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How long a watch lasts whose client does not say: between this and twice this.
const DEFAULT_TIMEOUT: u64 = 1800;

/// Answers with a stream of events.
pub(crate) async fn watch(cx: RequestContext) -> Result<Response<Body>, Status> {
    start::validate_options(&cx)?;
    let selection = Selection::parse(&cx)?;
    let start = Start::parse(&cx)?;
    let content_type = cx.accepted.media.stream_type().ok_or_else(not_a_stream)?;
    if start.consistent {
        cx.scope.catch_up().await?;
    } else if start.initial && start.revision > 0 {
        super::get::not_older_than(&cx, start.revision).await?;
    }
    let watcher = Watcher::new(cx, selection, &start).await?;
    let body = Body::stream(watcher);
    Ok(response::bytes(200, content_type, body))
}

/// One watch on its way.
struct Watcher {
    cx: Arc<RequestContext>,
    /// As in `cx`, where a thousand watchers would have to fetch them from a thousand places.
    plane: Arc<Plane>,
    served: Arc<Served>,
    selection: Arc<Selection>,
    /// The memory of a long query and its selectors.
    _charge: Option<Charge>,
    encoder: Encoder,
    /// Counts the events.
    sent: Count,
    /// What is sent before anything else.
    initial: Initial,
    /// Everything up to here has been sent.
    cursor: Revision,
    changed: Subscription,
    /// An event of which a part was sent.
    large_event: Option<LargeEvent>,
    /// What somebody else is asked about before it can be told.
    converting: Option<(Vec<Arc<Change>>, Converting)>,
    bookmarks: bool,
    /// When the watch began. Its times are measured from here, so that a clock that is set does
    /// not change them.
    begun: Moment,
    timeout: Duration,
    /// Goes off when a bookmark is due, or the end.
    alarm: Sleep,
    alarm_at: Duration,
    /// It is time for a bookmark, which is sent once everything before it is.
    bookmark_due: Option<Bookmark>,
    /// Ends when the server does.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whom `alarm` and `stop` will wake.
    asked: Option<Waker>,
    /// All that there was has just been sent, and no alarm was due: no need to look again.
    caught_up: bool,
    /// Nothing follows.
    ended: bool,
}

/// What a bookmark says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bookmark {
    /// All that was there before the watch has been sent.
    AfterInitial,
    /// So far it is.
    Regular,
}

/// What a watcher does next.
enum Step {
    Send(Bytes),
    /// Goes on with an event that was begun.
    SendPart(Bytes),
    Wait,
    Convert,
    End,
}

/// What changes look like in the version of the request.
type Converting = Pin<Box<dyn Future<Output = Result<Vec<Sight>, Status>> + Send>>;

impl Watcher {
    async fn new(cx: RequestContext, selection: Selection, start: &Start) -> Result<Self, Status> {
        let charge = start::charge(&cx, &selection)?;
        let timeout = match cx.scope.query.get("timeoutSeconds").map_or(Ok(0), parse_i64)? {
            0 => DEFAULT_TIMEOUT + cx.scope.storage.entropy.below(DEFAULT_TIMEOUT),
            // It is over before it has begun.
            asked => u64::try_from(asked).unwrap_or(0),
        };
        let timeout = Duration::from_secs(timeout);
        let bookmarks = cx.scope.query.flag("allowWatchBookmarks");
        let changed = cx.scope.served.cache.subscribe();
        let applied = cx.scope.storage.cache.applied();
        let (initial, cursor) = if start.initial {
            let snapshot = cx.scope.served.cache.snapshot();
            let selected = selection.selected(&cx, &snapshot).await?;
            (Initial::new(&cx, selected)?, snapshot.revision.max(applied))
        } else {
            // Who wants nothing of the past and names no revision begins now.
            (Initial::empty(), if start.revision == 0 { applied } else { start.revision })
        };
        let stop = cx.scope.storage.tasks.shutdown();
        let alarm_at = next_alarm(Duration::ZERO, timeout, bookmarks);
        Ok(Self {
            encoder: Encoder::new(&cx)?,
            sent: cx.plane.metrics.watch_events(&cx.scope.path),
            begun: cx.scope.storage.clock.moment(),
            timeout,
            alarm: cx.scope.storage.clock.sleep(alarm_at),
            alarm_at,
            asked: None,
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

    /// How long the watch has lasted.
    fn elapsed(&self) -> Duration {
        self.plane.storage.clock.passed_since(&self.begun)
    }

    /// What is to be done next.
    fn step(&mut self, elapsed: Duration) -> Step {
        // An event that was begun is sent to its end.
        if let Some(step) = self.next_part() {
            return step;
        }
        // A watch with always something to tell ends as well.
        if self.ended || elapsed >= self.timeout || self.plane.storage.tasks.is_stopping() {
            return Step::End;
        }
        match self.initial_events() {
            Ok(Some(bytes)) => return Step::Send(bytes),
            Ok(None) => {}
            Err(Forgotten) => return self.expire(self.plane.storage.cache.applied()),
        }
        loop {
            self.changed.mark_seen();
            match self.served.cache.after(self.cursor, BATCH) {
                Err(too_old) => return self.expire(too_old.floor),
                // The definition has gone or changed: what comes is not what was asked for.
                Ok(changes) if changes.is_empty() && self.served.is_retired() => {
                    return Step::End;
                }
                Ok(changes) if changes.is_empty() => {
                    if !self.catches_up() {
                        continue;
                    }
                    if self.bookmark_due.take().is_some() {
                        self.sent.inc();
                        return Step::Send(self.encoder.bookmark(&self.cx, self.cursor, false));
                    }
                    return Step::Wait;
                }
                Ok(changes)
                    if !self.served.conversion.serves_stored_bytes()
                        || self.selection.is_costly() =>
                {
                    self.converting = Some(self.convert(changes));
                    return Step::Convert;
                }
                Ok(changes) => {
                    let told = self.events(&changes, &[]);
                    // An alarm may have woken us together with the change.
                    self.caught_up &= told.is_some() && elapsed < self.alarm_at;
                    if let Some(bytes) = told {
                        return Step::Send(bytes);
                    }
                    if let Some(step) = self.next_part() {
                        return step;
                    }
                }
            }
        }
    }

    /// Ends the watch, since what comes next is known only from `floor` on.
    fn expire(&mut self, floor: Revision) -> Step {
        self.ended = true;
        let message = format!("too old resource version: {} ({floor})", self.cursor);
        Step::Send(event::error(&self.cx, &Status::expired(message)))
    }

    /// Takes the cursor to where the cache is, unless something has come that is to be told first.
    fn catches_up(&mut self) -> bool {
        let applied = self.plane.storage.cache.applied();
        // In this order: whatever came up to there is in the log by now.
        let nothing = self.served.cache.after(self.cursor, 1).is_ok_and(|it| it.is_empty());
        if nothing {
            self.cursor = self.cursor.max(applied);
        }
        nothing
    }

    /// The first of `changes`, as many as make a chunk: a watcher that does not read holds one, and
    /// there may be many of them. `sights` are what they look like if that is not what they are.
    fn events(&mut self, changes: &[Arc<Change>], sights: &[Sight]) -> Option<Bytes> {
        let mut events = Vec::new();
        let mut size = 0;
        self.caught_up = changes.len() < BATCH;
        for (index, change) in changes.iter().enumerate() {
            let (mut old, mut new) = match sights.get(index) {
                Some((old, new)) => (old.as_ref(), new.as_ref()),
                None => (change.old.as_ref(), change.new.as_ref()),
            };
            // A costly selection has been applied to its sights.
            if !self.selection.is_costly() {
                let sees = |entry: &&Arc<Entry>| self.selection.sees(&self.cx, entry);
                (old, new) = (old.filter(sees), new.filter(sees));
            }
            let event = self.encoder.change(&self.cx, change, (old, new));
            if let Some((event, key)) = &event
                && event.len() >= answer::LARGE
            {
                self.caught_up = false;
                // What comes before it is sent first.
                if events.is_empty() {
                    self.cursor = change.revision;
                    self.large_event = Some(LargeEvent::new(change, *key));
                    self.sent.inc();
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
        self.sent.add(events.len() as u64);
        event::joined(events)
    }

    fn initial_events(&mut self) -> Result<Option<Bytes>, Forgotten> {
        if !self.initial.is_empty() {
            let (mut out, mut read) = (Vec::new(), 0);
            while out.len() < CHUNK
                && read < initial::MAX_READ
                && let Some(entry) = self.initial.pop()
            {
                let entry = entry?;
                read += entry.len();
                self.encoder.added(&self.cx, &entry, &mut out);
                self.sent.inc();
            }
            return Ok(Some(out.into()));
        }
        if self.bookmark_due.take_if(|it| *it == Bookmark::AfterInitial).is_some() {
            self.sent.inc();
            return Ok(Some(self.encoder.bookmark(&self.cx, self.cursor, true)));
        }
        Ok(None)
    }

    /// Whether `alarm` and `stop` will wake whoever asks now.
    fn is_asked_for(&self, cx: &Context<'_>) -> bool {
        self.asked.as_ref().is_some_and(|it| it.will_wake(cx.waker()))
    }

    /// Waits for a change; a bookmark may be due before that, or the end.
    fn poll_wait(&mut self, cx: &mut Context<'_>, elapsed: Duration) -> Poll<()> {
        if self.changed.poll_changed(cx).is_ready() {
            return Poll::Ready(());
        }
        // Both stay registered with this waker: to poll them again for every change would be much
        // of what a change costs when a thousand watch.
        if self.is_asked_for(cx) && elapsed < self.alarm_at {
            return Poll::Pending;
        }
        if self.stop.as_mut().poll(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(());
        }
        if Pin::new(&mut self.alarm).poll(cx).is_pending() {
            self.asked = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.asked = None;
        let elapsed = self.elapsed();
        if elapsed >= self.timeout {
            self.ended = true;
            return Poll::Ready(());
        }
        self.alarm_at = next_alarm(elapsed, self.timeout, self.bookmarks);
        self.alarm = self.plane.storage.clock.sleep(self.alarm_at.saturating_sub(elapsed));
        self.bookmark_due = self.bookmarks.then_some(Bookmark::Regular);
        Poll::Ready(())
    }
}

impl Stream for Watcher {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if std::mem::take(&mut self.caught_up)
            && self.bookmark_due.is_none()
            && self.is_asked_for(cx)
            && self.changed.poll_changed(cx).is_pending()
        {
            return Poll::Pending;
        }
        loop {
            if let Some(bytes) = ready!(self.poll_converted(cx)) {
                return Poll::Ready(Some(self.within_limits(bytes)));
            }
            let elapsed = self.elapsed();
            match self.step(elapsed) {
                Step::Send(bytes) => return Poll::Ready(Some(self.within_limits(bytes))),
                Step::SendPart(bytes) => return Poll::Ready(Some(bytes)),
                Step::End => return Poll::Ready(None),
                Step::Wait => ready!(self.poll_wait(cx, elapsed)),
                Step::Convert => {}
            }
        }
    }
}

/// How long after its beginning a watch has the next bookmark due, or ends.
fn next_alarm(elapsed: Duration, timeout: Duration, bookmarks: bool) -> Duration {
    let last = timeout.saturating_sub(BOOKMARK_BEFORE_END);
    if bookmarks && elapsed < last { last.min(elapsed + BOOKMARK_EVERY) } else { timeout }
}
