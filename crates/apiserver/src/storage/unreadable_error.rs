//! The errors of requests that need objects that cannot be decrypted. Upstream:
//! storage/etcd3/store.go, for a single object and for a list.

use crate::cache::watch_cache::Snapshot;
use machinery::Status;
use machinery::field_path::quote;

/// Fails if the object at `key` cannot be decrypted.
pub(crate) fn check_object(snapshot: &Snapshot, key: &str) -> Result<(), Status> {
    match snapshot.unreadable.get(key) {
        None => Ok(()),
        Some(object) => Err(Status::internal(&object.reason)),
    }
}

/// Fails if an object whose key begins with `prefix` cannot be decrypted.
pub(crate) fn check_list(snapshot: &Snapshot, prefix: &str) -> Result<(), Status> {
    match snapshot.unreadable.first_under(prefix) {
        None => Ok(()),
        Some((key, object)) => {
            let (key, why) = (quote(key), &object.reason);
            Err(Status::internal(format!("unable to transform key {key}: {why}")))
        }
    }
}
