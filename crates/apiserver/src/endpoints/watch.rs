//! WATCH: the changes of a collection, as they happen, until the client or the time-out ends it.
//!
//! A watcher is a cursor: it has sent everything up to a revision and asks the cache for what came
//! after. It holds no queue, so one that does not read costs nothing but its place; when it reads
//! again and the log has moved on, it is told to list again (410).

mod event;

use super::list::refuse_list_options;
use super::selection::Selection;
use crate::answer;
use crate::body::Body;
use crate::context::Cx;
use crate::conversion::{self, Sight};
use crate::negotiation::not_a_stream;
use crate::options::{parse_i64, parse_revision};
use crate::watch_cache::{Change, Entry};
use bytes::Bytes;
use event::Encoder;
use futures_util::stream;
use http::Response;
use keel::{Clock, Timestamp};
use machinery::{Faults, Path, Reason, Status};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use store::Revision;
use tokio::sync::watch::Receiver;

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
pub(crate) async fn watch(cx: Cx) -> Result<Response<Body>, Status> {
    let content_type = cx.accepted.media.stream_type().ok_or_else(not_a_stream)?;
    validate_options(&cx)?;
    let selection = Selection::parse(&cx)?;
    let start = Start::parse(&cx)?;
    if start.consistent {
        cx.catch_up().await?;
    } else if start.initial && start.revision > 0 {
        super::get::not_older_than(&cx, start.revision).await?;
    }
    let watcher = Watcher::new(cx, selection, &start).await?;
    let body = Body::stream(stream::unfold(watcher, Watcher::next));
    Ok(answer::bytes(200, content_type, body))
}

/// Where a watch begins.
struct Start {
    revision: Revision,
    /// With what there is.
    initial: bool,
    /// Which must be current.
    consistent: bool,
    /// And a bookmark behind it.
    initial_bookmark: bool,
}

impl Start {
    fn parse(cx: &Cx) -> Result<Self, Status> {
        let text = cx.query.text("resourceVersion");
        let revision = match text {
            "" => 0,
            text => parse_revision(text).map_err(|why| {
                let text = machinery::field_path::quote(text);
                Status::unclassified(format!("resourceVersion: Invalid value: {text}: {why}"))
            })?,
        };
        let asked = cx.query.flag("sendInitialEvents");
        let refused = cx.query.get("sendInitialEvents").is_some() && !asked;
        let bookmarks = cx.query.flag("allowWatchBookmarks");
        Ok(Self {
            revision,
            initial: asked || (revision == 0 && !refused),
            consistent: text.is_empty(),
            initial_bookmark: bookmarks && (asked || text.is_empty()),
        })
    }
}

/// Upstream: apis/meta/internalversion/validation, for watches.
fn validate_options(cx: &Cx) -> Result<(), Status> {
    let matching = cx.query.text("resourceVersionMatch");
    let path = Path::root("resourceVersionMatch");
    let mut faults = Faults::new();
    if !matching.is_empty() && !cx.query.text("continue").is_empty() {
        faults.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
    }
    if cx.query.get("sendInitialEvents").is_some() {
        if matching != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            faults.forbidden(&path, detail);
        }
        if !matches!(matching, "" | "NotOlderThan") {
            faults.not_supported(&path, matching, &["NotOlderThan"]);
        }
    } else if !matching.is_empty() && faults.is_empty() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        faults.forbidden(&path, detail);
    }
    refuse_list_options(&faults)
}

/// One watch on its way.
struct Watcher {
    cx: Cx,
    selection: Selection,
    encoder: Encoder,
    /// What is sent before anything else.
    initial: VecDeque<Arc<Entry>>,
    /// Everything up to here has been sent.
    cursor: Revision,
    changed: Receiver<Revision>,
    bookmarks: bool,
    deadline: Timestamp,
    /// Goes off when a bookmark is due, or the end. It is set once and not for every change, which
    /// is most of what a change costs when a thousand watch.
    alarm: Wait,
    /// It is time for a bookmark, which is sent once everything before it is.
    bookmark_due: Option<Bookmark>,
    /// Ends when the server does.
    stop: Wait,
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

/// Something that is waited for, again and again.
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Watcher {
    async fn new(cx: Cx, selection: Selection, start: &Start) -> Result<Self, Status> {
        let timeout = match cx.query.text("timeoutSeconds") {
            "" => 0,
            text => u64::try_from(parse_i64(text)?).unwrap_or(0),
        };
        let timeout = match timeout {
            0 => DEFAULT_TIMEOUT + cx.plane.entropy.below(DEFAULT_TIMEOUT),
            asked => asked,
        };
        let now = cx.plane.clock.now();
        let deadline = now + Duration::from_secs(timeout);
        let bookmarks = cx.query.flag("allowWatchBookmarks");
        let changed = cx.served.cache.subscribe();
        let applied = cx.plane.cache.applied();
        let (initial, cursor) = if start.initial {
            let snapshot = cx.served.cache.snapshot();
            (selection.selected(&cx, &snapshot).await?.into(), snapshot.revision.max(applied))
        } else {
            // Who wants nothing of the past and names no revision begins now.
            (VecDeque::new(), if start.revision == 0 { applied } else { start.revision })
        };
        let stop = cx.plane.tasks.shutdown();
        Ok(Self {
            encoder: Encoder::new(&cx)?,
            alarm: alarm(&cx.plane.clock, now, deadline, bookmarks),
            bookmark_due: (start.initial && start.initial_bookmark)
                .then_some(Bookmark::AfterInitial),
            stop: Box::pin(stop),
            cx,
            selection,
            initial,
            cursor,
            changed,
            bookmarks,
            deadline,
            ended: false,
        })
    }

    /// The next bytes of the stream, and the watcher that will make those after them.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            // A watch with always something to tell ends as well.
            let over = self.cx.plane.clock.now() >= self.deadline;
            if self.ended || over || self.cx.plane.tasks.is_stopping() {
                return None;
            }
            if let Some(bytes) = self.initial_events() {
                return Some((bytes, self));
            }
            self.changed.borrow_and_update();
            let applied = self.cx.plane.cache.applied();
            match self.cx.served.cache.after(self.cursor, BATCH) {
                Err(too_old) => {
                    self.ended = true;
                    let message =
                        format!("too old resource version: {} ({})", self.cursor, too_old.floor);
                    return Some((event::error(&self.cx, &Status::expired(message)), self));
                }
                // The definition has gone or changed: what comes is not what was asked for.
                Ok(changes) if changes.is_empty() && self.cx.served.is_retired() => return None,
                Ok(changes) if changes.is_empty() => {
                    self.cursor = self.cursor.max(applied);
                    if self.bookmark_due.take().is_some() {
                        return Some((Encoder::bookmark(&self.cx, self.cursor, false), self));
                    }
                    self.wait().await;
                }
                Ok(changes) => match self.events(&changes).await {
                    Ok(Some(bytes)) => return Some((bytes, self)),
                    Ok(None) => {}
                    Err(status) => {
                        self.ended = true;
                        return Some((event::error(&self.cx, &status), self));
                    }
                },
            }
        }
    }

    /// The first of `changes`, as many as make a chunk: a watcher that does not read holds one, and
    /// there may be many of them.
    async fn events(&mut self, changes: &[Arc<Change>]) -> Result<Option<Bytes>, Status> {
        let Some(sights) = self.sights(changes).await? else { return Ok(None) };
        let mut events = Vec::new();
        let mut size = 0;
        for (index, change) in changes.iter().enumerate() {
            self.cursor = change.revision;
            let sight = match sights.get(index) {
                Some((old, new)) => (old.as_ref(), new.as_ref()),
                None => (change.old.as_ref(), change.new.as_ref()),
            };
            if let Some(event) = self.encoder.change(&self.cx, &self.selection, change, sight) {
                size += event.len();
                events.push(event);
            }
            if size >= CHUNK {
                break;
            }
        }
        Ok(joined(events))
    }

    /// What others were asked about `changes`, if they must be; None if the server stops meanwhile.
    async fn sights(&mut self, changes: &[Arc<Change>]) -> Result<Option<Vec<Sight>>, Status> {
        if self.cx.served.conversion.copies() {
            return Ok(Some(Vec::new()));
        }
        let inside = self.selection.looks_inside();
        // In a box: a watcher that waits for a change has no use for the room.
        let prefix = &self.selection.prefix;
        let asked = Box::pin(conversion::changes(&self.cx, prefix, inside, changes));
        tokio::select! {
            sights = asked => match sights {
                Ok(sights) => Ok(Some(sights)),
                // Upstream: a watch says what a request says, with a reason.
                Err(status) => Err(Status::new(500, Reason::InternalError, status.message)),
            },
            () = &mut self.stop => {
                self.ended = true;
                Ok(None)
            }
        }
    }

    fn initial_events(&mut self) -> Option<Bytes> {
        if !self.initial.is_empty() {
            let mut out = Vec::new();
            while out.len() < CHUNK
                && let Some(entry) = self.initial.pop_front()
            {
                self.encoder.added(&self.cx, &entry, &mut out);
            }
            return Some(out.into());
        }
        if self.bookmark_due.take_if(|it| *it == Bookmark::AfterInitial).is_some() {
            return Some(Encoder::bookmark(&self.cx, self.cursor, true));
        }
        None
    }

    /// Waits for a change; a bookmark may be due before that, or the end.
    async fn wait(&mut self) {
        tokio::select! {
            _ = self.changed.changed() => return,
            () = &mut self.alarm => {}
            () = &mut self.stop => {
                self.ended = true;
                return;
            }
        }
        let clock = &self.cx.plane.clock;
        let now = clock.now();
        if now >= self.deadline {
            self.ended = true;
            return;
        }
        self.alarm = alarm(clock, now, self.deadline, self.bookmarks);
        self.bookmark_due = self.bookmarks.then_some(Bookmark::Regular);
    }
}

/// Goes off when the next bookmark is due, or the end.
fn alarm(clock: &Clock, now: Timestamp, deadline: Timestamp, bookmarks: bool) -> Wait {
    let last = deadline - BOOKMARK_BEFORE_END;
    let until = if bookmarks && now < last { last.min(now + BOOKMARK_EVERY) } else { deadline };
    let clock = clock.clone();
    Box::pin(async move { clock.sleep_until(until).await })
}

/// One event is passed on as it is, shared with all other watchers; several are joined.
fn joined(mut events: Vec<Bytes>) -> Option<Bytes> {
    match events.len() {
        0 | 1 => events.pop(),
        _ => Some(events.concat().into()),
    }
}
