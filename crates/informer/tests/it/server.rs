//! [`Server`]: a simulated API server for one resource, with history, compaction, pages, bookmarks
//! and faults.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use informer::{
    Item, List, ListRequest, ListWatch, ListWatchError, ObjectKey, Selection, WatchEvent,
    WatchRequest, WatchStream,
};
use keel::Entropy;
use machinery::watch::INITIAL_EVENTS_END;
use machinery::{Status, Value, json};

/// The fault of one watch. The number is that of the events before the fault, and for `Replayed` that
/// of the repeated revisions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The connection ends between two events.
    Cut(u64),
    /// The connection ends within a line.
    Truncated(u64),
    /// An ERROR event with the code 410.
    Expired(u64),
    /// An ERROR event with the code 500.
    Failed(u64),
    /// A proxy repeats older events first.
    Replayed(u64),
    /// Events arrive in the wrong order.
    Reordered(u64),
    /// No more events arrive, and the connection stays open.
    Silent(u64),
}

/// The support of watches with initial events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitialEvents {
    Sent,
    Refused,
    /// The server supports them, and fails.
    Broken,
    /// No bookmark ends them, as with servers that do not support them.
    Endless,
}

/// A handle on the server; clones refer to the same server.
#[derive(Clone)]
pub(crate) struct Server(Arc<ServerInner>);

struct ServerInner {
    state: Mutex<ServerState>,
    changed: Notify,
}

pub(crate) struct ServerState {
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<ObjectKey, Value>,
    history: Vec<Change>,
    /// History before this revision was compacted.
    oldest: u64,
    /// The remaining objects of lists in pages, by continue token.
    pages: HashMap<String, (u64, Vec<Value>)>,
    /// Incremented to close all connections.
    generation: u64,
    /// The number of assigned uids.
    uids: u64,
    /// The requests so far, as `list` or `watch 7`.
    pub(crate) log: Vec<String>,
    /// The responses to the next requests.
    pub(crate) refusals: VecDeque<Status>,
    /// The faults of the next watches.
    pub(crate) faults: VecDeque<Fault>,
    /// The number of the next continue tokens that are expired.
    pub(crate) expiring_tokens: u32,
    /// The name and color of a write between two pages of a list. The later page has the version of
    /// the write.
    pub(crate) write_between_pages: Option<(&'static str, &'static str)>,
    /// Whether the resource does not exist.
    pub(crate) absent: bool,
    /// Whether lists have no version.
    pub(crate) hides_versions: bool,
    /// Whether a backup was restored.
    pub(crate) was_restored: bool,
    pub(crate) initial_events: InitialEvents,
}

#[derive(Clone)]
struct Change {
    revision: u64,
    old: Option<Value>,
    new: Option<Value>,
}

impl Server {
    pub(crate) fn new() -> Self {
        let state = ServerState {
            revision: 1_000_000,
            objects: BTreeMap::new(),
            history: Vec::new(),
            oldest: 1_000_000,
            pages: HashMap::new(),
            generation: 0,
            uids: 0,
            log: Vec::new(),
            refusals: VecDeque::new(),
            faults: VecDeque::new(),
            expiring_tokens: 0,
            write_between_pages: None,
            absent: false,
            hides_versions: false,
            was_restored: false,
            initial_events: InitialEvents::Refused,
        };
        Self(Arc::new(ServerInner { state: Mutex::new(state), changed: Notify::new() }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ServerState> {
        self.0.state.lock().unwrap()
    }

    /// Creates or updates an object, and returns it.
    pub(crate) fn put(&self, name: &str, color: &str) -> Item {
        let mut state = self.state();
        let key = ObjectKey::new("n", name);
        let old = state.objects.get(&key).cloned();
        state.revision += 1;
        state.uids += 1;
        let uid = old
            .as_ref()
            .map_or(json!(format!("uid-{}", state.uids)), |old| old["metadata"]["uid"].clone());
        let new = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"namespace": "n",
            "name": name, "uid": uid, "resourceVersion": state.revision.to_string(),
            "labels": {"color": color}}, "spec": {"revision": state.revision}});
        state.objects.insert(key, new.clone());
        state.record(old, Some(new.clone()));
        drop(state);
        self.0.changed.notify_waiters();
        Item::parse(new.to_string().into_bytes()).unwrap()
    }

    /// Creates an object without a name.
    pub(crate) fn put_nameless(&self) {
        let mut state = self.state();
        state.revision += 1;
        let object = json!({"metadata": {"resourceVersion": state.revision.to_string()}});
        state.objects.insert(ObjectKey::new("n", ""), object.clone());
        state.record(None, Some(object));
        drop(state);
        self.0.changed.notify_waiters();
    }

    /// Deletes an object, and returns its last state.
    pub(crate) fn delete(&self, name: &str) -> Option<Item> {
        let mut state = self.state();
        let old = state.objects.remove(&ObjectKey::new("n", name))?;
        state.revision += 1;
        state.record(Some(old.clone()), None);
        drop(state);
        self.0.changed.notify_waiters();
        Some(Item::parse(old.to_string().into_bytes()).unwrap())
    }

    /// Compacts all history, and expires all continue tokens.
    pub(crate) fn compact(&self) {
        let mut state = self.state();
        state.oldest = state.revision;
        state.history.clear();
        state.pages.clear();
    }

    /// Closes all connections and compacts all history.
    pub(crate) fn restart(&self) {
        self.compact();
        self.cut();
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.state().generation += 1;
        self.0.changed.notify_waiters();
    }

    /// Restores a backup: the revision is older, and some objects do not exist.
    pub(crate) fn restore(&self, entropy: &Entropy) {
        {
            let mut state = self.state();
            state.was_restored = true;
            state.revision -= 10_000;
            state.objects.retain(|_, _| entropy.below(3) > 0);
            let mut revision = state.revision - 100;
            for object in state.objects.values_mut() {
                revision += 1;
                object["metadata"]["resourceVersion"] = revision.to_string().into();
            }
        }
        self.restart();
    }

    /// Name and version of all objects that `selection` selects.
    pub(crate) fn selected_versions(&self, selection: &Selection) -> BTreeMap<String, String> {
        let state = self.state();
        let selected = state.objects.values().filter(|object| selects(selection, object));
        let text = |object: &Value, key: &str| object["metadata"][key].as_str().unwrap().to_owned();
        let named = selected.filter(|object| object["metadata"]["name"].is_string());
        named.map(|object| (text(object, "name"), text(object, "resourceVersion"))).collect()
    }

    fn open(&self, request: &WatchRequest) -> Result<WatchStream, ListWatchError> {
        let mut state = self.state();
        let from = request.resource_version.clone().unwrap_or_default();
        state.log.push(format!("watch {from}").trim_end().to_owned());
        state.check_refusals()?;
        let mut first = Vec::new();
        let mut cursor = match from.parse::<u64>() {
            Ok(from) if from > state.revision => {
                let status = Status::too_large_resource_version(from, state.revision);
                return Err(ListWatchError::Refused(status));
            }
            Ok(from) if from > 0 && from < state.oldest => {
                return Err(ListWatchError::Refused(Status::expired("too old")));
            }
            Ok(from) if from > 0 => from,
            _ => {
                let wants_initial_events = request.initial_events;
                if wants_initial_events && state.initial_events == InitialEvents::Refused {
                    let status = Status::bad_request("sendInitialEvents is forbidden");
                    return Err(ListWatchError::Refused(status));
                }
                if wants_initial_events && state.initial_events == InitialEvents::Broken {
                    let status = Status::internal("no progress notifications");
                    return Err(ListWatchError::Refused(status));
                }
                let objects = state.objects.values();
                let selected = objects.filter(|object| selects(&request.selection, object));
                first.extend(selected.map(|object| line("ADDED", object)));
                if wants_initial_events && state.initial_events == InitialEvents::Sent {
                    first.push(bookmark(state.revision, true));
                }
                state.revision
            }
        };
        let fault = state.faults.pop_front();
        if let Some(Fault::Replayed(back)) = fault {
            cursor = cursor.saturating_sub(back).max(state.oldest);
        }
        let connection = Connection {
            server: self.clone(),
            selection: request.selection.clone(),
            cursor,
            generation: state.generation,
            sent: 0,
            ready: first.into(),
            fault,
            is_over: false,
        };
        Ok(stream::unfold(connection, Connection::next).boxed())
    }

    fn page(&self, request: &ListRequest) -> Result<List, ListWatchError> {
        let is_continued = request.continue_token.is_some();
        let write = is_continued.then(|| self.state().write_between_pages.take()).flatten();
        if let Some((name, color)) = write {
            self.put(name, color);
        }
        let mut state = self.state();
        state.log.push(if request.limit.is_some() { "list" } else { "list-all" }.to_owned());
        state.check_refusals()?;
        if request.continue_token.is_some() && state.expiring_tokens > 0 {
            state.expiring_tokens -= 1;
            return Err(ListWatchError::Refused(Status::expired("the token is too old")));
        }
        let (revision, mut rest) = if let Some(token) = &request.continue_token {
            let expired = || ListWatchError::Refused(Status::expired("the token is too old"));
            let (revision, rest) = state.pages.remove(token).ok_or_else(expired)?;
            (if write.is_some() { state.revision } else { revision }, rest)
        } else {
            let objects = state.objects.values();
            let selected = objects.filter(|object| selects(&request.selection, object));
            (state.revision, selected.cloned().collect())
        };
        let limit = request.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
        let later = rest.split_off(limit.min(rest.len()));
        let shown = if state.hides_versions { 0 } else { revision };
        let mut metadata = json!({"resourceVersion": shown.to_string()});
        if !later.is_empty() {
            let token = format!("token-{}", state.log.len());
            metadata["continue"] = token.as_str().into();
            state.pages.insert(token, (revision, later));
        }
        let list = json!({"apiVersion": "v1", "kind": "ThingList", "metadata": metadata,
            "items": rest});
        List::parse(list.to_string())
    }
}

impl ListWatch for Server {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<List, ListWatchError>> {
        Box::pin(async move { self.page(&request) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        Box::pin(async move { self.open(&request) })
    }
}

impl ServerState {
    fn record(&mut self, old: Option<Value>, new: Option<Value>) {
        self.history.push(Change { revision: self.revision, old, new });
    }

    /// Fails with the next refusal, if there is one.
    fn check_refusals(&mut self) -> Result<(), ListWatchError> {
        if self.absent {
            return Err(ListWatchError::Refused(Status::no_such_resource()));
        }
        self.refusals.pop_front().map_or(Ok(()), |status| Err(ListWatchError::Refused(status)))
    }
}

struct Connection {
    server: Server,
    selection: Selection,
    cursor: u64,
    generation: u64,
    sent: u64,
    ready: VecDeque<String>,
    fault: Option<Fault>,
    is_over: bool,
}

enum FaultEffect {
    Nothing,
    End,
    /// The last event or error.
    Last(Result<WatchEvent, ListWatchError>),
}

impl Connection {
    async fn next(mut self) -> Option<(Result<WatchEvent, ListWatchError>, Self)> {
        loop {
            if self.is_over {
                return None;
            }
            let server = self.server.clone();
            let mut changed = std::pin::pin!(server.0.changed.notified());
            changed.as_mut().enable();
            match self.apply_fault() {
                FaultEffect::Nothing => {}
                FaultEffect::End => return None,
                FaultEffect::Last(event) => return Some((event, self)),
            }
            self.fetch();
            if let Some(line) = self.ready.pop_front() {
                self.sent += 1;
                return Some((WatchEvent::parse(line), self));
            }
            changed.await;
            if server.state().generation != self.generation || server.state().absent {
                return None;
            }
        }
    }

    /// Applies the fault, if it is due.
    fn apply_fault(&mut self) -> FaultEffect {
        match self.fault {
            Some(Fault::Cut(after)) if self.sent >= after => return FaultEffect::End,
            Some(Fault::Truncated(after)) if self.sent >= after => {
                self.fetch();
                let Some(line) = self.ready.pop_front() else { return FaultEffect::Nothing };
                self.is_over = true;
                let end = line.len() * usize::try_from(after % 7 + 1).unwrap() / 8;
                return FaultEffect::Last(WatchEvent::parse(line.as_bytes()[..end].to_vec()));
            }
            Some(Fault::Expired(after)) if self.sent >= after => {
                return self.fail(&Status::expired("too old resource version"));
            }
            Some(Fault::Failed(after)) if self.sent >= after => {
                return self.fail(&Status::internal("cannot decode an object"));
            }
            Some(Fault::Silent(after)) if self.sent >= after => {
                self.cursor = u64::MAX;
                self.ready.clear();
            }
            Some(Fault::Reordered(after)) if self.sent >= after => {
                self.fetch();
                // Bookmarks are not reordered: no client can detect a wrong bookmark.
                if !self.ready.iter().any(|line| line.contains("BOOKMARK")) {
                    self.ready.make_contiguous().reverse();
                }
            }
            _ => {}
        }
        FaultEffect::Nothing
    }

    fn fail(&mut self, status: &Status) -> FaultEffect {
        self.is_over = true;
        FaultEffect::Last(WatchEvent::parse(line("ERROR", &status.to_value())))
    }

    /// Adds the events since the cursor, or a bookmark if none of them is in scope.
    fn fetch(&mut self) {
        let state = self.server.state();
        if self.cursor >= state.revision || state.generation != self.generation {
            return;
        }
        let since = state.history.iter().filter(|change| change.revision > self.cursor);
        let lines: Vec<String> =
            since.filter_map(|change| change.event_for(&self.selection)).collect();
        if lines.is_empty() {
            self.ready.push_back(bookmark(state.revision, false));
        }
        self.ready.extend(lines);
        self.cursor = state.revision;
    }
}

impl Change {
    /// The event that a watch with this selection gets for this change.
    fn event_for(&self, selection: &Selection) -> Option<String> {
        let is_selected = |object: &&Value| selects(selection, object);
        let (old, new) =
            (self.old.as_ref().filter(is_selected), self.new.as_ref().filter(is_selected));
        let (event_type, object) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        Some(line(event_type, &object))
    }
}

fn selects(selection: &Selection, object: &Value) -> bool {
    selection.labels.matches(|key| object["metadata"]["labels"][key].as_str())
}

fn line(event_type: &str, object: &Value) -> String {
    json!({"type": event_type, "object": object}).to_string()
}

fn bookmark(revision: u64, is_end: bool) -> String {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if is_end {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    line("BOOKMARK", &json!({"kind": "Thing", "apiVersion": "v1", "metadata": metadata}))
}
