//! [`Identity`]: the key, uid, resourceVersion and generation of an item.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::head::Metadata;
use crate::{BadItem, ObjectKey};

/// See the [module documentation](self).
pub(super) struct Identity {
    pub(super) key: ObjectKey,
    /// The uid, the resourceVersion and the generation, in one allocation.
    text: Box<str>,
    uid_length: u32,
    generation_length: u8,
    /// False if the metadata are known to have neither owners nor a deletion timestamp.
    pub(super) may_be_owned_or_deleted: bool,
    /// Whether this state was read, see [`Item::mark_read`](super::Item::mark_read).
    pub(super) is_read: AtomicBool,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata<'_>) -> Result<Self, BadItem> {
        let Metadata { namespace, name, uid, resource_version, generation, .. } = metadata;
        Self::new(namespace, name, uid, resource_version, *generation)
    }

    pub(super) fn new(
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: &str,
        generation: i64,
    ) -> Result<Self, BadItem> {
        if name.is_empty() {
            return Err(BadItem::Nameless);
        }
        let generation_length = digits(generation);
        // The exact size, so that no copy follows.
        let size = uid.len() + resource_version.len() + usize::from(generation_length);
        let mut text = String::with_capacity(size);
        text.push_str(uid);
        text.push_str(resource_version);
        if generation != 0 {
            let _ = write!(text, "{generation}");
        }
        Ok(Self {
            key: ObjectKey { namespace: intern_namespace(namespace), name: name.into() },
            text: text.into(),
            uid_length: u32::try_from(uid.len())
                .map_err(|error| BadItem::Malformed(serde::de::Error::custom(error)))?,
            generation_length,
            may_be_owned_or_deleted: true,
            is_read: AtomicBool::new(false),
        })
    }

    /// The same identity with another pointer to the namespace, not marked as read.
    pub(super) fn with_namespace(&self, namespace: Arc<str>) -> Self {
        Self {
            key: ObjectKey { namespace, name: Arc::clone(&self.key.name) },
            text: self.text.clone(),
            is_read: AtomicBool::new(false),
            ..*self
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.text[..self.uid_length as usize]
    }

    pub(super) fn resource_version(&self) -> &str {
        &self.text[self.uid_length as usize..self.generation_start()]
    }

    pub(super) fn generation(&self) -> i64 {
        self.text[self.generation_start()..].parse().unwrap_or(0)
    }

    fn generation_start(&self) -> usize {
        self.text.len() - usize::from(self.generation_length)
    }
}

/// The number of characters of a number; 0 for zero.
fn digits(number: i64) -> u8 {
    let digits = number.unsigned_abs().checked_ilog10().map_or(0, |power| power + 1);
    let sign = u32::from(number < 0);
    u8::try_from(digits + sign).expect("a number of 64 bits has at most 20 characters")
}

thread_local! {
    /// The namespace of the object that this thread has read last.
    static LAST_NAMESPACE: RefCell<Arc<str>> = RefCell::new("".into());
}

/// Reuses the namespace of the previous object, which is often the same.
fn intern_namespace(namespace: &str) -> Arc<str> {
    LAST_NAMESPACE.with_borrow_mut(|last| {
        if **last != *namespace {
            *last = namespace.into();
        }
        Arc::clone(last)
    })
}
