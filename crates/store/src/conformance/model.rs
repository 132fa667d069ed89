//! Case: random scripts have the same effect on the store and on a naive model.

use std::collections::BTreeMap;

use super::{Fixture, Watcher, show, show_events};
use crate::{Error, Expect, Revision};
use keel::Entropy;

const SCRIPTS: u64 = 4;
const STEPS: u64 = 150;
const KEYS: [&str; 6] = ["/a", "/a/1", "/a/2", "/b", "/b/1", "/c"];
const PREFIXES: [&str; 4] = ["/", "/a/", "/b", "/none"];

/// A store with a copy of all records for each revision.
struct Model {
    /// The revision of the store before the script.
    start: Revision,
    /// The value and the revision of each key, for each revision since `start`.
    states: Vec<BTreeMap<String, (String, Revision)>>,
    /// The key of each write, and its line as in [`show_events`].
    events: Vec<(String, String)>,
    /// The oldest revision that can be read.
    floor: Revision,
}

impl Model {
    fn revision(&self) -> Revision {
        self.start + u64::try_from(self.events.len()).unwrap()
    }

    fn now(&self) -> &BTreeMap<String, (String, Revision)> {
        self.states.last().unwrap()
    }

    fn write(&mut self, key: &str, value: Option<String>) {
        let revision = self.revision() + 1;
        let mut state = self.now().clone();
        let line = if let Some(value) = value {
            state.insert(key.to_owned(), (value.clone(), revision));
            format!("{revision}+{key}={value}")
        } else {
            state.remove(key);
            format!("{revision}-{key}")
        };
        self.states.push(state);
        self.events.push((key.to_owned(), line));
    }

    fn allows(&self, key: &str, expect: Expect) -> bool {
        match (expect, self.now().get(key)) {
            (Expect::Any, _) | (Expect::Absent, None) => true,
            (Expect::At(revision), Some((_, modified))) => revision == *modified,
            (Expect::Absent, Some(_)) | (Expect::At(_), None) => false,
        }
    }

    fn range(&self, prefix: &str, at: Revision) -> Vec<String> {
        let state = &self.states[usize::try_from(at - self.start).unwrap()];
        let matching = state.iter().filter(|(key, _)| key.starts_with(prefix));
        matching.map(|(key, (value, _))| format!("{key}={value}")).collect()
    }

    fn events(&self, prefix: &str, after: Revision) -> Vec<String> {
        let later = self.events.iter().skip(usize::try_from(after - self.start).unwrap());
        let matching = later.filter(|(key, _)| key.starts_with(prefix));
        matching.map(|(_, line)| line.clone()).collect()
    }
}

/// A running script.
struct Script<'a> {
    fixture: &'a Fixture,
    model: Model,
    entropy: Entropy,
    watches: Vec<OpenWatch>,
}

struct OpenWatch {
    prefix: &'static str,
    /// The revision at which it started.
    after: Revision,
    watcher: Watcher,
    delivered: Vec<String>,
}

pub async fn random_scripts_match_the_model(f: &Fixture) {
    for seed in 0..SCRIPTS {
        println!("seed {seed}");
        for key in KEYS {
            let _ = f.store.delete(key, Expect::Any).await;
        }
        let start = f.store.revision().await.unwrap();
        let model = Model { start, states: vec![BTreeMap::new()], events: vec![], floor: start };
        let entropy = Entropy::seeded(seed);
        let mut script = Script { fixture: f, model, entropy, watches: vec![] };
        for _ in 0..STEPS {
            script.step().await;
        }
        script.finish().await;
    }
}

impl Script<'_> {
    async fn step(&mut self) {
        match self.entropy.below(12) {
            0..=4 => self.put().await,
            5..=6 => self.delete().await,
            7..=8 => self.range().await,
            9 => self.watch().await,
            10 => self.catch_up().await,
            _ => self.compact().await,
        }
        assert_eq!(self.fixture.store.revision().await.unwrap(), self.model.revision());
    }

    fn pick<T: Copy>(&self, choices: &[T]) -> T {
        let count = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.entropy.below(count)).unwrap()]
    }

    fn pick_expectation(&self, key: &str) -> Expect {
        let current = self.model.now().get(key).map_or(1, |(_, modified)| *modified);
        self.pick(&[Expect::Any, Expect::Absent, Expect::At(current), Expect::At(current + 1)])
    }

    /// A revision since the start of the script, perhaps compacted.
    fn pick_revision(&self) -> Revision {
        self.model.start + self.entropy.below(self.model.revision() - self.model.start + 1)
    }

    async fn put(&mut self) {
        let key = self.pick(&KEYS);
        let expect = self.pick_expectation(key);
        let value = self.entropy.suffix(3);
        let result = self.fixture.store.put(key, value.clone().into(), expect, None).await;
        assert_eq!(result.is_ok(), self.model.allows(key, expect), "{key} {expect:?} {result:?}");
        if let Ok(record) = result {
            self.model.write(key, Some(value));
            assert_eq!(record.modified, self.model.revision());
        }
    }

    async fn delete(&mut self) {
        let key = self.pick(&KEYS);
        let expect = self.pick_expectation(key);
        let result = self.fixture.store.delete(key, expect).await;
        let exists = self.model.now().contains_key(key);
        match result {
            Ok(event) => {
                assert!(exists && self.model.allows(key, expect), "{key} {expect:?}");
                self.model.write(key, None);
                assert_eq!(event.revision, self.model.revision());
            }
            Err(Error::NotFound { .. }) => assert!(!exists),
            Err(Error::Conflict { .. }) => assert!(exists && !self.model.allows(key, expect)),
            Err(error) => panic!("{error}"),
        }
    }

    async fn range(&mut self) {
        let (prefix, at) = (self.pick(&PREFIXES), self.pick_revision());
        match self.fixture.store.range(prefix, None, usize::MAX, Some(at)).await {
            Ok(page) => assert_eq!(show(&page.records), self.model.range(prefix, at), "at {at}"),
            Err(Error::Compacted { oldest, .. }) => {
                assert!(at < self.model.floor && oldest == self.model.floor);
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn watch(&mut self) {
        let (prefix, after) = (self.pick(&PREFIXES), self.pick_revision());
        match Watcher::open(&*self.fixture.store, prefix, after).await {
            Ok(watcher) => {
                self.watches.push(OpenWatch { prefix, after, watcher, delivered: vec![] });
            }
            Err(Error::Compacted { .. }) => assert!(after < self.model.floor),
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads the events of all watches up to the present revision. Compacted watches end.
    async fn catch_up(&mut self) {
        for mut watch in std::mem::take(&mut self.watches) {
            match watch.watcher.catch_up(&*self.fixture.store).await {
                Ok(events) => {
                    watch.delivered.extend(show_events(&events));
                    self.watches.push(watch);
                }
                Err(Error::Compacted { asked, .. }) => assert!(asked < self.model.floor),
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn compact(&mut self) {
        let upto = self.pick_revision();
        self.fixture.store.compact(upto).await.unwrap();
        self.model.floor = self.model.floor.max(upto);
    }

    async fn finish(mut self) {
        self.catch_up().await;
        for OpenWatch { prefix, after, delivered, .. } in &self.watches {
            assert_eq!(delivered, &self.model.events(prefix, *after), "{prefix} after {after}");
        }
    }
}
