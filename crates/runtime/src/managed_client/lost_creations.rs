//! [`LostCreations`]: the creations whose responses were lost, so that no object is created twice.
//!
//! ```text
//! create made-x7k2p ─▶ no response    it may have succeeded, have failed, or be under way
//! get made-x7k2p    ─▶ 404            it has failed, or is under way
//! create made-x7k2p ─▶ created        with the same name: the second of the two is refused
//!                   ─▶ 409            the first had succeeded
//! ```
//!
//! Therefore names are generated here and not by the server (`generateName`). For a controller that
//! generates a new name for each attempt, creations are tracked only while a lost request may still
//! be processed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::resource_path::ResourcePath;
use keel::{Clock, ClockInstant, Entropy};
use machinery::{Object, Value};

/// Generated names have at most 63 characters, of which the suffix has five, as in kube-apiserver.
const MAX_PREFIX: usize = 58;
const SUFFIX: usize = 5;
/// The time after which no server still processes a request; the timeout of kube-apiserver is a
/// minute.
const MAX_REQUEST_TIME: Duration = Duration::from_mins(2);

/// See the [module documentation](self).
pub(super) struct LostCreations {
    clock: Clock,
    /// The creations that may have succeeded, or may still. Their number is bounded by those lost
    /// within [`MAX_REQUEST_TIME`], one at a time for each worker.
    lost: Mutex<Vec<LostCreation>>,
}

struct LostCreation {
    collection: ResourcePath,
    name: String,
    /// Empty if the name was not generated here.
    prefix: String,
    at: ClockInstant,
}

impl LostCreations {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), lost: Mutex::default() }
    }

    /// The names of the lost creations in this collection.
    pub(super) fn lost(&self, collection: &ResourcePath) -> Vec<String> {
        let lost = self.lock();
        let same = lost.iter().filter(|lost| lost.collection == *collection);
        same.map(|lost| lost.name.clone()).collect()
    }

    /// The creation had succeeded.
    pub(super) fn was_found(&self, collection: &ResourcePath, name: &str) {
        self.lock().retain(|lost| lost.collection != *collection || lost.name != name);
    }

    /// The creation has not succeeded, and will not after [`MAX_REQUEST_TIME`].
    pub(super) fn was_not_found(&self, collection: &ResourcePath, name: &str) {
        self.lock().retain(|lost| {
            lost.collection != *collection
                || lost.name != name
                || self.clock.elapsed_since(&lost.at) < MAX_REQUEST_TIME
        });
    }

    /// Generates the name of an object with `generateName`, or reuses that of a lost creation with
    /// the same prefix. The pending creation becomes a lost one unless it is
    /// [confirmed](PendingCreation::confirm).
    pub(super) fn begin(
        &self,
        collection: &ResourcePath,
        body: Bytes,
        entropy: &Entropy,
    ) -> (Bytes, PendingCreation<'_>) {
        let unnamed = PendingCreation { creations: self, lost: None, is_retry: false };
        let Ok(Value::Object(map)) = serde_json::from_slice(&body) else { return (body, unnamed) };
        let mut object = Object::new(map);
        let pending = |name: String, prefix: String, known: Option<LostCreation>| {
            let (collection, at) = (collection.clone(), self.clock.instant());
            let lost = Some(LostCreation { collection, name, prefix, at });
            PendingCreation { creations: self, lost, is_retry: known.is_some() }
        };
        if !object.name().is_empty() {
            let name = object.name().to_owned();
            let known = self.take(|lost| lost.collection == *collection && lost.name == name);
            return (body, pending(name, String::new(), known));
        }
        let prefix: String = object.meta_text("generateName").chars().take(MAX_PREFIX).collect();
        if prefix.is_empty() {
            return (body, unnamed);
        }
        let known = self.take(|lost| lost.collection == *collection && lost.prefix == prefix);
        let name = known.as_ref().map(|known| known.name.clone());
        let name = name.unwrap_or_else(|| format!("{prefix}{}", entropy.suffix(SUFFIX)));
        object.set_meta("name", name.as_str());
        (object.to_bytes().into(), pending(name, prefix, known))
    }

    fn take(&self, is_match: impl Fn(&LostCreation) -> bool) -> Option<LostCreation> {
        let mut lost = self.lock();
        let index = lost.iter().position(is_match)?;
        Some(lost.swap_remove(index))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LostCreation>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A creation that was sent. If it is dropped without being confirmed, it is lost.
pub(super) struct PendingCreation<'a> {
    creations: &'a LostCreations,
    /// `None` if the name is not known.
    lost: Option<LostCreation>,
    /// Whether an earlier creation with the same name was lost.
    pub(super) is_retry: bool,
}

impl PendingCreation<'_> {
    pub(super) fn name(&self) -> Option<&str> {
        self.lost.as_ref().map(|lost| lost.name.as_str())
    }

    /// Whether the name was generated here.
    pub(super) fn is_generated(&self) -> bool {
        self.lost.as_ref().is_some_and(|lost| !lost.prefix.is_empty())
    }

    /// The creation has a response.
    pub(super) fn confirm(mut self) {
        self.lost = None;
    }
}

impl Drop for PendingCreation<'_> {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            let at = self.creations.clock.instant();
            self.creations.lock().push(LostCreation { at, ..lost });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    fn setup() -> (LostCreations, Clock, Entropy) {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        (LostCreations::new(&clock), clock, Entropy::seeded(1))
    }

    fn pods() -> ResourcePath {
        ResourcePath::parse("/api/v1/namespaces/n/pods").unwrap()
    }

    fn generated(prefix: &str) -> Bytes {
        format!(r#"{{"metadata":{{"generateName":"{prefix}"}}}}"#).into()
    }

    #[test]
    fn a_lost_creation_is_repeated_once_with_the_same_name() {
        let (creations, _, entropy) = setup();
        let (body, lost) = creations.begin(&pods(), generated("a-"), &entropy);
        let name = lost.name().unwrap().to_owned();
        assert!(!lost.is_retry && String::from_utf8_lossy(&body).contains(&name));
        drop(lost);
        assert_eq!(creations.lost(&pods()), [name.as_str()]);
        let (_, other) = creations.begin(&pods(), generated("b-"), &entropy);
        assert!(!other.is_retry);
        let (_, again) = creations.begin(&pods(), generated("a-"), &entropy);
        assert_eq!((again.name(), again.is_retry), (Some(name.as_str()), true));
        let (_, third) = creations.begin(&pods(), generated("a-"), &entropy);
        assert_ne!(third.name(), Some(name.as_str()));
        again.confirm();
        third.confirm();
        other.confirm();
        assert!(creations.lost(&pods()).is_empty());
    }

    #[test]
    fn a_lost_creation_is_looked_up_while_it_may_succeed() {
        let (creations, clock, entropy) = setup();
        let named = Bytes::from_static(br#"{"metadata":{"name":"a"}}"#);
        drop(creations.begin(&pods(), named, &entropy).1);
        creations.was_not_found(&pods(), "a");
        assert_eq!(creations.lost(&pods()), ["a"]);
        clock.advance(MAX_REQUEST_TIME);
        creations.was_not_found(&pods(), "a");
        assert!(creations.lost(&pods()).is_empty());
    }
}
