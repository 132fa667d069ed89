//! [`NamespaceLimit`]: how many workers of a controller may reconcile objects of one namespace at a
//! time, so that who writes in one namespace cannot occupy all workers.
//!
//! ```text
//! limit 2:   begin(n/a) begin(n/b)   run
//!            begin(n/c)              is parked, and its worker takes another key
//!            end(n/a) = n/c          goes back to the queue
//! ```
//!
//! Invariants:
//! - a namespace has an entry only while one of its keys runs or is parked;
//! - a key is parked only while another key of its namespace runs, or has left the parked keys and
//!   waits in the queue.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Request;
use informer::work_queue::Priority;

/// See the [module documentation](self).
pub(crate) struct NamespaceLimit {
    limit: usize,
    namespaces: Mutex<HashMap<String, Namespace>>,
}

#[derive(Default)]
struct Namespace {
    running: usize,
    /// In the order of arrival.
    order: VecDeque<Request>,
    parked: HashMap<Request, Priority>,
}

impl NamespaceLimit {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), namespaces: Mutex::default() }
    }

    /// Whether a key may be reconciled now; otherwise it is parked. Cluster-scoped objects have no
    /// limit.
    pub(crate) fn begin(&self, request: &Request, priority: Priority) -> bool {
        if request.namespace().is_empty() {
            return true;
        }
        let mut namespaces = self.lock();
        let namespace = namespaces.entry(request.namespace().to_owned()).or_default();
        if namespace.running < self.limit {
            namespace.running += 1;
            return true;
        }
        let Namespace { order, parked, .. } = namespace;
        let known = parked.entry(request.clone()).or_insert_with(|| {
            order.push_back(request.clone());
            priority
        });
        *known = (*known).max(priority);
        false
    }

    /// Ends the reconcile of a key; returns the key that goes back to the queue for it.
    pub(crate) fn end(&self, request: &Request) -> Option<(Request, Priority)> {
        let mut namespaces = self.lock();
        let namespace = namespaces.get_mut(request.namespace())?;
        namespace.running -= 1;
        let next = namespace.order.pop_front();
        let next = next.and_then(|next| namespace.parked.remove_entry(&next));
        if namespace.running == 0 && namespace.order.is_empty() {
            namespaces.remove(request.namespace());
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Namespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_beyond_the_limit_of_its_namespace_waits_for_the_end_of_another_one() {
        let limit = NamespaceLimit::new(1);
        let [a, b, c, other] = [("n", "a"), ("n", "b"), ("n", "c"), ("m", "a")]
            .map(|(namespace, name)| Request::new(namespace, name));
        assert!(limit.begin(&a, Priority::NORMAL));
        assert!(!limit.begin(&b, Priority::LOW));
        assert!(!limit.begin(&c, Priority::LOW));
        assert!(!limit.begin(&b, Priority::HIGH), "it is parked once");
        assert!(limit.begin(&other, Priority::NORMAL));
        assert_eq!(limit.end(&a), Some((b.clone(), Priority::HIGH)));
        assert!(limit.begin(&b, Priority::HIGH));
        assert_eq!(limit.end(&b), Some((c.clone(), Priority::LOW)));
        assert!(limit.begin(&c, Priority::LOW));
        assert_eq!((limit.end(&c), limit.end(&other)), (None, None));
        assert!(limit.lock().is_empty());
    }

    #[test]
    fn cluster_scoped_objects_have_no_limit() {
        let limit = NamespaceLimit::new(1);
        for name in ["a", "b"] {
            assert!(limit.begin(&Request::new("", name), Priority::NORMAL));
        }
        assert_eq!(limit.end(&Request::new("", "a")), None);
    }
}
