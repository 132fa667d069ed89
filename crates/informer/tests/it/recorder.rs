//! [`Recorder`]: a handler that checks that each event is consistent with the previous ones.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer::{EventHandler, Item};

/// The recorded events, and the resulting state.
#[derive(Default)]
pub(crate) struct Recorder {
    seen: Mutex<Seen>,
    is_inline: bool,
}

#[derive(Default)]
struct Seen {
    state: BTreeMap<String, Item>,
    events: Vec<String>,
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// An inline handler.
    pub(crate) fn inline() -> Arc<Self> {
        Arc::new(Self { is_inline: true, ..Self::default() })
    }

    /// Name and version of all objects by the recorded events.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let seen = self.seen.lock().unwrap();
        let version = |item: &Item| item.resource_version().to_owned();
        seen.state.iter().map(|(name, item)| (name.clone(), version(item))).collect()
    }

    /// The events since the last call, such as `+a`, `~a`, `-a`; initial ones `i+a`, resyncs `=a`,
    /// deletions with an unknown final state `xa`.
    pub(crate) fn take_events(&self) -> String {
        std::mem::take(&mut self.seen.lock().unwrap().events).join(" ")
    }
}

impl EventHandler for Recorder {
    fn on_add(&self, item: &Item, is_initial: bool) {
        let mut seen = self.seen.lock().unwrap();
        let known = seen.state.insert(item.name().to_owned(), item.clone());
        assert!(known.is_none(), "{item:?} was added twice");
        let mark = if is_initial { "i+" } else { "+" };
        seen.events.push(format!("{mark}{}", item.name()));
    }

    fn on_update(&self, old: &Item, new: &Item) {
        let mut seen = self.seen.lock().unwrap();
        let known = seen.state.insert(new.name().to_owned(), new.clone());
        let known = known.expect("an updated object was added before");
        assert!(known.is_same_state(old), "{old:?} is not the last recorded state, {known:?}");
        let mark = if old.is_same_state(new) { "=" } else { "~" };
        seen.events.push(format!("{mark}{}", new.name()));
    }

    fn on_delete(&self, item: &Item, is_final_state_unknown: bool) {
        let mut seen = self.seen.lock().unwrap();
        assert!(
            seen.state.remove(item.name()).is_some(),
            "{item:?} was deleted and had not been added"
        );
        let mark = if is_final_state_unknown { "x" } else { "-" };
        seen.events.push(format!("{mark}{}", item.name()));
    }

    fn is_inline(&self) -> bool {
        self.is_inline
    }
}
