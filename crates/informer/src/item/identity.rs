//! [`Identity`]: which state of which object an item is.

use std::{
    cell::RefCell,
    fmt::Write as _,
    sync::{Arc, atomic::AtomicBool},
};

use super::head::Metadata;
use crate::{BadItem, ObjectKey};

/// See the [module documentation](self).
pub(super) struct Identity {
    pub(super) key: ObjectKey,
    /// The uid, and behind it the resourceVersion and the generation: one allocation for all.
    marks: Box<str>,
    uid_length: u32,
    generation_length: u8,
    /// Whether somebody has read this very state, see [`Item::note_reading`](super::Item::note_reading).
    pub(super) is_read: AtomicBool,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata<'_>) -> Result<Self, BadItem> {
        if metadata.name.is_empty() {
            return Err(BadItem::KeyError);
        }
        let Metadata { uid, resource_version, generation, .. } = metadata;
        let generation_length = digits(*generation);
        // Of just the size that it will have.
        let size = uid.len() + resource_version.len() + usize::from(generation_length);
        let mut marks = String::with_capacity(size);
        marks.push_str(uid);
        marks.push_str(resource_version);
        if *generation != 0 {
            let _ = write!(marks, "{generation}");
        }
        Ok(Self {
            key: ObjectKey {
                namespace: namespace_like_the_last(&metadata.namespace),
                name: metadata.name.as_ref().into(),
            },
            marks: marks.into(),
            uid_length: u32::try_from(uid.len())
                .map_err(|error| BadItem::Malformed(serde::de::Error::custom(error)))?,
            generation_length,
            is_read: AtomicBool::new(false),
        })
    }

    /// The same, with the name of the namespace in another place; nobody has read it there.
    pub(super) fn within(&self, namespace: Arc<str>) -> Self {
        Self {
            key: ObjectKey { namespace, name: Arc::clone(&self.key.name) },
            marks: self.marks.clone(),
            is_read: AtomicBool::new(false),
            ..*self
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.marks[..self.uid_length as usize]
    }

    pub(super) fn resource_version(&self) -> &str {
        &self.marks[self.uid_length as usize..self.generation_start()]
    }

    pub(super) fn generation(&self) -> i64 {
        self.marks[self.generation_start()..].parse().unwrap_or(0)
    }

    fn generation_start(&self) -> usize {
        self.marks.len() - usize::from(self.generation_length)
    }
}

/// How many characters a number takes; none if it is zero.
fn digits(number: i64) -> u8 {
    let digits = number.unsigned_abs().checked_ilog10().map_or(0, |power| power + 1);
    let sign = u32::from(number < 0);
    u8::try_from(digits + sign).expect("no number of 64 bits has so many")
}

thread_local! {
    /// That of the object that this thread has read last.
    static LAST_NAMESPACE: RefCell<Arc<str>> = RefCell::new("".into());
}

/// Objects of one namespace mostly come one after the other.
fn namespace_like_the_last(namespace: &str) -> Arc<str> {
    LAST_NAMESPACE.with_borrow_mut(|last| {
        if **last != *namespace {
            *last = namespace.into();
        }
        Arc::clone(last)
    })
}
