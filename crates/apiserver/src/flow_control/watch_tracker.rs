//! [`WatchTracker`]: the number of watches that are interested in an object.
//!
//! ```text
//! a write of pods a/x:   watches of all pods  +  of the pods of a  +  of the pod a/x
//! ```
//!
//! Upstream: `util/flowcontrol/watch_tracker.go`

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::request::RequestInfo;

/// The field by which the watches of a resource select objects such that an event concerns few of them.
const INDEXED_FIELD: (&str, &str) = ("pods", "spec.nodeName");

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct WatchTracker {
    counts: Mutex<HashMap<WatchIdentifier, usize>>,
}

/// The watched objects: those of a resource, of a namespace if it is set, with the name if it is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct WatchIdentifier {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl WatchTracker {
    /// Counts a watch until the result is dropped; None if it is not a watch, or selects a value of the
    /// indexed field. Upstream: the events of an object are assumed to concern none of the latter.
    pub(crate) fn register(self: &Arc<Self>, info: &RequestInfo) -> Option<TrackedWatch> {
        let path = info.resource.as_ref()?;
        let (resource, field) = INDEXED_FIELD;
        let is_indexed = path.resource == resource
            && info.selectors.iter().flat_map(|it| &it.fields).any(|requirement| {
                requirement.equal && requirement.field == field && !requirement.value.is_empty()
            });
        if is_indexed {
            return None;
        }
        let identifier = WatchIdentifier {
            group: path.group.clone(),
            resource: path.resource.clone(),
            namespace: path.namespace.clone(),
            name: info.object_name().to_owned(),
        };
        *self.lock().entry(identifier.clone()).or_default() += 1;
        Some(TrackedWatch { tracker: Arc::clone(self), identifier })
    }

    /// The number of watches that get an event if the request writes an object.
    pub(crate) fn interested(&self, info: &RequestInfo) -> usize {
        let Some(path) = info.resource.as_ref().filter(|_| !info.verb.is_read_only()) else {
            return 0;
        };
        let counts = self.lock();
        if counts.is_empty() {
            return 0;
        }
        let count = |identifier: &WatchIdentifier| counts.get(identifier).copied().unwrap_or(0);
        let mut identifier = WatchIdentifier {
            group: path.group.clone(),
            resource: path.resource.clone(),
            ..WatchIdentifier::default()
        };
        let mut interested = count(&identifier);
        if !path.namespace.is_empty() {
            identifier.namespace.clone_from(&path.namespace);
            interested += count(&identifier);
        }
        if !path.name.is_empty() {
            identifier.name.clone_from(&path.name);
            interested += count(&identifier);
        }
        interested
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WatchIdentifier, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watch that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct TrackedWatch {
    tracker: Arc<WatchTracker>,
    identifier: WatchIdentifier,
}

impl Drop for TrackedWatch {
    fn drop(&mut self) {
        let mut counts = self.tracker.lock();
        if let Some(count) = counts.get_mut(&self.identifier) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.identifier);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request::Query;

    fn watch(tracker: &Arc<WatchTracker>, path: &str, query: &str) -> Option<TrackedWatch> {
        let query = Query::parse(Some(&format!("watch=1&{query}")));
        tracker.register(&RequestInfo::parse(&Method::GET, path, &query).unwrap())
    }

    fn interested(tracker: &WatchTracker, method: &Method, path: &str) -> usize {
        tracker.interested(&RequestInfo::parse(method, path, &Query::default()).unwrap())
    }

    #[test]
    fn watches_of_all_objects_of_the_namespace_and_of_the_object_are_interested() {
        let tracker = Arc::<WatchTracker>::default();
        let _watches = [
            watch(&tracker, "/api/v1/secrets", ""),
            watch(&tracker, "/api/v1/namespaces/a/secrets", "labelSelector=x"),
            watch(&tracker, "/api/v1/namespaces/a/secrets", "fieldSelector=metadata.name%3Ds"),
            watch(&tracker, "/api/v1/namespaces/b/secrets", ""),
            watch(&tracker, "/api/v1/namespaces/a/configmaps", ""),
        ];
        let secrets = "/api/v1/namespaces/a/secrets";
        assert_eq!(interested(&tracker, &Method::POST, secrets), 2);
        assert_eq!(interested(&tracker, &Method::PUT, &format!("{secrets}/s")), 3);
        assert_eq!(interested(&tracker, &Method::PUT, &format!("{secrets}/t")), 2);
        assert_eq!(interested(&tracker, &Method::GET, secrets), 0, "a read has no event");
    }

    #[test]
    fn watches_of_the_pods_of_a_node_are_not_counted() {
        let tracker = Arc::<WatchTracker>::default();
        assert!(watch(&tracker, "/api/v1/pods", "fieldSelector=spec.nodeName%3Dn").is_none());
        let unassigned = watch(&tracker, "/api/v1/pods", "fieldSelector=spec.nodeName%3D");
        assert_eq!(interested(&tracker, &Method::POST, "/api/v1/namespaces/a/pods"), 1);
        drop(unassigned);
        assert!(tracker.lock().is_empty());
    }
}
