//! [`InterruptedPlane`]: a plane with all controllers and a simulated node, which is killed at random
//! while it works, and started again with the same data.
//!
//! ```text
//! run_until(done):  events … kill ─ restart ─ events … kill ─ restart ─ events … done
//! ```
//!
//! A kill comes after a random number of events and a random time, so that it does not depend on the
//! speed of the machine. A quarter of the starts is killed too. `SAMPAN_CRASH_ROUNDS` is the number of kills of each test (default 3), and
//! `SAMPAN_CRASH_SEED` the seed of the random numbers (default 1).

use std::collections::BTreeMap;
use std::env;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use super::{revision, wait};
use crate::http::Client;
use crate::operator::Operator;
use crate::plane::Plane;
use keel::{Clock, Entropy};
use machinery::{Value, json};

/// The longest time between the last counted event and a kill, in microseconds.
const MAX_DELAY: u64 = 5_000;
/// The longest time between a start and a kill before the plane is ready, in microseconds.
const MAX_START_DELAY: u64 = 100_000;
/// The time in which a plane must finish its work.
const LIMIT: Duration = Duration::from_mins(1);
/// The interval at which the condition for the end is checked while there are no events.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// A pod that marks the end of the events of a round.
const MARKER: &str = "end-of-round";

/// The path of all pods.
pub(super) const ALL_PODS: &str = "/api/v1/pods";
/// The path of the pods in the namespace `default`.
pub(super) const PODS: &str = "/api/v1/namespaces/default/pods";

/// An event of a watch.
#[derive(Debug, Clone)]
pub(super) struct WatchEvent {
    pub event_type: String,
    pub object: Value,
}

impl WatchEvent {
    fn revision(&self) -> u64 {
        revision(&self.object).unwrap()
    }
}

/// See the [module documentation](self).
pub(super) struct InterruptedPlane {
    directory: TempDir,
    plane: Option<Plane>,
    client: Client,
    entropy: Entropy,
    clock: Clock,
    kills_left: u64,
    watches: Vec<WatchState>,
    /// The events since the last [`take_events`](Self::take_events).
    events: Vec<WatchEvent>,
    incoming: Receiver<(usize, WatchEvent)>,
    /// Starts the operator, if there is one.
    start_operator: Option<fn(&Plane) -> Operator>,
    operator: Option<Operator>,
}

/// A watch, which is resumed after each restart.
struct WatchState {
    path: &'static str,
    last_revision: u64,
    thread: Option<JoinHandle<()>>,
}

/// Does the rounds of a scenario until the plane was killed often enough, and the same rounds on a
/// plane that is never killed. Each round ends with the same state.
pub(super) fn assert_same_end(
    watched: &[&'static str],
    round: impl Fn(&mut InterruptedPlane, u64) -> Value,
) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let kills = number("SAMPAN_CRASH_ROUNDS").unwrap_or(3);
    let seed = number("SAMPAN_CRASH_SEED").unwrap_or(1);
    eprintln!("{kills} kills with seed {seed}");
    let mut plane = InterruptedPlane::start(watched, kills, seed);
    let mut ends = Vec::new();
    while plane.kills_left > 0 {
        ends.push(round(&mut plane, ends.len() as u64));
    }
    eprintln!("{} rounds", ends.len());
    let mut undisturbed = InterruptedPlane::start(watched, 0, seed);
    for (number, end) in ends.into_iter().enumerate() {
        assert_eq!(end, round(&mut undisturbed, number as u64), "the end of round {number}");
    }
}

impl InterruptedPlane {
    /// A plane whose pods and further collections are watched.
    fn start(watched: &[&'static str], kills: u64, seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plane = Plane::embedded_alive(directory.path());
        let mut client = plane.client();
        let watches = [&[ALL_PODS], watched].concat().into_iter().map(|path| {
            let (_, list) = client.send("GET", path, None).unwrap();
            WatchState { path, last_revision: revision(&list).unwrap(), thread: None }
        });
        let watches = watches.collect();
        let mut interrupted = Self {
            directory,
            plane: Some(plane),
            client,
            entropy: Entropy::seeded(seed),
            clock: Clock::system(),
            kills_left: kills,
            watches,
            events: Vec::new(),
            incoming: channel().1,
            start_operator: None,
            operator: None,
        };
        interrupted.resume_watches();
        interrupted
    }

    /// Starts an operator, which ends with the plane and is started again with it.
    pub(super) fn start_operator(&mut self, start: fn(&Plane) -> Operator) {
        self.operator = Some(start(self.plane.as_ref().unwrap()));
        self.start_operator = Some(start);
    }

    /// Lets the plane work until an object is as expected. Until then it is killed at random, each
    /// time after less than `max_events` events.
    pub(super) fn run_until(
        &mut self,
        path: &str,
        max_events: u64,
        is_expected: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        while self.kills_left > 0 {
            let events = self.entropy.below(max_events);
            let delay = Duration::from_micros(self.entropy.below(MAX_DELAY));
            if let Some(found) = self.run_for(Some(events), path, &is_expected) {
                return found;
            }
            wait(delay);
            self.kills_left -= 1;
            self.restart();
        }
        self.wait_until(path, is_expected)
    }

    /// Lets the plane work until an object is as expected, without a kill.
    pub(super) fn wait_until(
        &mut self,
        path: &str,
        is_expected: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        self.run_for(None, path, is_expected).unwrap()
    }

    /// Lets the plane work for a number of events. Returns the object if it is as expected.
    fn run_for(
        &mut self,
        mut events_left: Option<u64>,
        path: &str,
        is_expected: impl Fn(u16, &Value) -> bool,
    ) -> Option<Value> {
        let start = self.clock.instant();
        loop {
            if events_left != Some(0) && self.next_event(CHECK_INTERVAL) {
                events_left = events_left.map(|left| left - 1);
                continue;
            }
            let (code, found) = self.client.send("GET", path, None).unwrap();
            if is_expected(code, &found) {
                return Some(found);
            }
            if events_left == Some(0) {
                return None;
            }
            let elapsed = self.clock.elapsed_since(&start);
            assert!(elapsed < LIMIT, "{path} is still {found}; {} kills are left", self.kills_left);
        }
    }

    /// Waits for an event, and remembers it.
    fn next_event(&mut self, timeout: Duration) -> bool {
        match self.incoming.recv_timeout(timeout) {
            Ok((watch, event)) => {
                self.observe(watch, event);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => panic!("all watches have ended"),
        }
    }

    fn observe(&mut self, watch: usize, event: WatchEvent) {
        self.watches[watch].last_revision = event.revision();
        self.events.push(event);
    }

    /// Kills the plane and starts it again.
    fn restart(&mut self) {
        self.plane.take().unwrap().kill();
        self.operator.take();
        for watch in &mut self.watches {
            watch.thread.take().unwrap().join().unwrap();
        }
        while let Ok((watch, event)) = self.incoming.try_recv() {
            self.observe(watch, event);
        }
        // A crash may be followed by another one before the plane is ready.
        if self.entropy.below(4) == 0 {
            let delay = Duration::from_micros(self.entropy.below(MAX_START_DELAY));
            Plane::kill_at_start(self.directory.path(), || wait(delay));
        }
        let plane = Plane::embedded_alive(self.directory.path());
        self.client = plane.client();
        self.operator = self.start_operator.map(|start| start(&plane));
        self.plane = Some(plane);
        self.resume_watches();
    }

    fn resume_watches(&mut self) {
        let (sender, incoming) = channel();
        self.incoming = incoming;
        for (index, state) in self.watches.iter_mut().enumerate() {
            let client = self.plane.as_ref().unwrap().client();
            let path = format!("{}?watch=1&resourceVersion={}", state.path, state.last_revision);
            let sender = sender.clone();
            state.thread = Some(thread::spawn(move || watch(&client, &path, index, &sender)));
        }
    }

    /// All events since the last call, in the order in which they happened. Of kinds other than pods,
    /// deletions may be missing.
    pub(super) fn take_events(&mut self) -> Vec<WatchEvent> {
        let containers = json!([{"name": "none", "image": "none"}]);
        let spec = json!({"schedulerName": "none", "containers": containers});
        self.create(PODS, &json!({"metadata": {"name": MARKER}, "spec": spec}));
        let marker = self.send("DELETE", &format!("{PODS}/{MARKER}"), None);
        for index in 0..self.watches.len() {
            let list = self.list(self.watches[index].path);
            let latest = list.values().filter_map(revision).max().unwrap_or_default();
            // The revision of the deletion is higher than that of the marker.
            let latest = if index == 0 { revision(&marker).unwrap() + 1 } else { latest };
            while self.watches[index].last_revision < latest {
                assert!(self.next_event(LIMIT), "the watch ends too early");
            }
        }
        let mut events = std::mem::take(&mut self.events);
        events.retain(|event| event.object["metadata"]["name"] != MARKER);
        events.sort_by_key(WatchEvent::revision);
        events
    }

    /// Sends a request that must succeed.
    pub(super) fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (code, response) = self.client.send(method, path, body).unwrap();
        assert!(code < 300, "{method} {path}: {code} {response}");
        response
    }

    /// Creates an object.
    pub(super) fn create(&mut self, collection: &str, object: &Value) {
        self.send("POST", collection, Some(object));
    }

    /// The objects of a collection, by their names.
    pub(super) fn list(&mut self, collection: &str) -> BTreeMap<String, Value> {
        let mut list = self.send("GET", collection, None);
        let items = std::mem::take(list["items"].as_array_mut().unwrap());
        let named = |item: Value| (item["metadata"]["name"].as_str().unwrap().to_owned(), item);
        items.into_iter().map(named).collect()
    }
}

/// Sends the events of a watch until the plane is killed.
fn watch(client: &Client, path: &str, index: usize, events: &Sender<(usize, WatchEvent)>) {
    let Ok(mut watch) = client.watch(path) else { return };
    while let Ok(Some(mut event)) = watch.next() {
        assert_ne!(event["type"], "ERROR", "{event}");
        let event_type = event["type"].as_str().unwrap().to_owned();
        let event = WatchEvent { event_type, object: std::mem::take(&mut event["object"]) };
        if events.send((index, event)).is_err() {
            return;
        }
    }
}

/// The status of an object without its times.
pub(super) fn untimed_status(object: &Value) -> Value {
    let mut status = object["status"].clone();
    remove_times(&mut status);
    status
}

fn remove_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !name.ends_with("Time") && !name.ends_with("At"));
            map.values_mut().for_each(remove_times);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}
