//! [`Predicate`]: filters events.
//!
//! ```
//! # use runtime::Predicate;
//! // Accepts changes of the spec or of a label, but not those of the status by the controller itself.
//! let predicate = Predicate::generation_changed().or(Predicate::labels_changed());
//! # drop(predicate);
//! ```
//!
//! The predefined predicates filter updates; they accept all additions and deletions.

use std::fmt;
use std::sync::Arc;

use informer::{Item, ObjectEvent};
use machinery::Value;

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Predicate(Option<Arc<PredicateFn>>);

type PredicateFn = dyn Fn(&ObjectEvent) -> bool + Send + Sync;

impl Predicate {
    /// Accepts all events.
    pub fn everything() -> Self {
        Self(None)
    }

    /// Accepts the events for which `predicate` returns true. An event for which it panics is lost
    /// for this controller.
    pub fn custom(predicate: impl Fn(&ObjectEvent) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(predicate)))
    }

    /// Accepts changes of the spec, as counted by the generation of custom resources and most other
    /// kinds. The start of a deletion also raises the generation.
    pub fn generation_changed() -> Self {
        Self::update(|old, new| old.generation() != new.generation())
    }

    /// Accepts changes of labels.
    pub fn labels_changed() -> Self {
        Self::update(|old, new| old.labels() != new.labels())
    }

    /// Accepts changes of annotations.
    pub fn annotations_changed() -> Self {
        Self::update(|old, new| annotations(old) != annotations(new))
    }

    /// Accepts all changes; rejects resyncs.
    pub fn resource_version_changed() -> Self {
        Self::update(|old, new| old.resource_version() != new.resource_version())
    }

    fn update(predicate: impl Fn(&Item, &Item) -> bool + Send + Sync + 'static) -> Self {
        Self::custom(move |event| match event {
            ObjectEvent::Updated { old, new } => predicate(old, new),
            ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => true,
        })
    }

    /// Accepts an event that both accept.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::custom(move |event| self.accepts(event) && other.accepts(event))
    }

    /// Accepts an event that one of them accepts.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::custom(move |event| self.accepts(event) || other.accepts(event))
    }

    /// Accepts an event that this one rejects.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "`and`, `or` and `not` belong together")]
    pub fn not(self) -> Self {
        Self::custom(move |event| !self.accepts(event))
    }

    /// Whether the event is accepted.
    pub fn accepts(&self, event: &ObjectEvent) -> bool {
        self.0.as_ref().is_none_or(|predicate| predicate(event))
    }

    /// Whether this is [`everything`](Self::everything), which needs no call.
    pub(crate) fn accepts_all(&self) -> bool {
        self.0.is_none()
    }
}

fn annotations(item: &Item) -> Option<Value> {
    item.object().ok()?.get(&["metadata", "annotations"]).cloned()
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(metadata: &str) -> Item {
        let json = format!(r#"{{"metadata":{{"name":"a",{metadata}}}}}"#);
        Item::parse(json.into_bytes()).unwrap()
    }

    /// Whether `predicate` accepts an update from `old` to `new`.
    fn check(predicate: &Predicate, old: &str, new: &str) -> bool {
        predicate.accepts(&ObjectEvent::Updated { old: item(old), new: item(new) })
    }

    #[test]
    fn each_predicate_accepts_its_own_change_and_all_additions() {
        let one =
            r#""generation":1,"resourceVersion":"1","labels":{"a":"b"},"annotations":{"c":"d"}"#;
        for (predicate, change) in [
            (Predicate::generation_changed(), ("\"generation\":1", "\"generation\":2")),
            (Predicate::resource_version_changed(), ("\"1\"", "\"2\"")),
            (Predicate::labels_changed(), ("\"b\"", "\"x\"")),
            (Predicate::annotations_changed(), ("\"d\"", "\"x\"")),
        ] {
            assert!(!check(&predicate, one, one));
            assert!(check(&predicate, one, &one.replace(change.0, change.1)), "{change:?}");
            assert!(predicate.accepts(&ObjectEvent::Added { item: item(one), is_initial: true }));
        }
    }

    #[test]
    fn predicates_are_combined_like_booleans() {
        let (yes, no) = (Predicate::everything(), Predicate::everything().not());
        let event = ObjectEvent::Added { item: item(r#""uid":"u""#), is_initial: false };
        let accepts = |predicate: Predicate| predicate.accepts(&event);
        assert!(accepts(yes.clone().or(no.clone())) && !accepts(yes.and(no.clone())));
        assert!(accepts(no.not()));
    }
}
