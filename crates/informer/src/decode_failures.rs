//! [`DecodeFailures`]: decodes objects for a typed index or mapper, and logs those that do not decode,
//! each once.
//!
//! ```
//! # use informer::{DecodeFailures, Item};
//! #[derive(serde::Deserialize)]
//! struct Sized { size: u32 }
//!
//! let failures = DecodeFailures::new("the index size");
//! let item = Item::parse(br#"{"metadata":{"name":"a"},"size":"wrong"}"#.as_slice())?;
//! assert!(failures.decode::<Sized>(&item).is_none()); // logged as a warning that names the object
//! # Ok::<(), informer::BadItem>(())
//! ```

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;

use crate::{Item, ObjectKey};

/// The largest number of objects that are remembered; further ones are not logged.
const MAX_LOGGED: usize = 1024;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct DecodeFailures {
    purpose: String,
    /// The objects that were logged and have not decoded since.
    logged: Mutex<HashSet<ObjectKey>>,
}

impl DecodeFailures {
    /// `purpose` is named in the log: what the objects are decoded for.
    pub fn new(purpose: &str) -> Self {
        Self { purpose: purpose.to_owned(), logged: Mutex::default() }
    }

    /// The decoded object; `None`, and a warning for the first such state, if it does not decode.
    pub fn decode<T: DeserializeOwned>(&self, item: &Item) -> Option<T> {
        let decoded = item.decode::<T>();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match decoded {
            Ok(object) => {
                if !logged.is_empty() {
                    logged.remove(item.key());
                }
                Some(object)
            }
            Err(error) => {
                if logged.len() < MAX_LOGGED && logged.insert(item.key().clone()) {
                    let (object, purpose) = (item.key(), &self.purpose);
                    let kind = std::any::type_name::<T>();
                    tracing::warn!(%object, kind, %error, "an object does not decode and is left out of {purpose}");
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Sized {
        size: u32,
    }

    fn item(size: &str) -> Item {
        let json = format!(r#"{{"metadata":{{"name":"a"}},"size":{size}}}"#);
        Item::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn an_object_is_logged_once_until_it_decodes() {
        let failures = DecodeFailures::new("a test");
        let logged = || failures.logged.lock().unwrap().len();
        for _ in 0..2 {
            assert!(failures.decode::<Sized>(&item("\"wrong\"")).is_none());
            assert_eq!(logged(), 1);
        }
        assert_eq!(failures.decode::<Sized>(&item("7")).map(|it| it.size), Some(7));
        assert_eq!(logged(), 0);
    }
}
