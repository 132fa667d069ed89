//! [`LevelRequests`]: the requests of one priority level that wait or are executed, for dumps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::priority_and_fairness::{FlowSchema, SeatRequest};
use super::work_estimate::WorkEstimate;
use crate::request::RequestInfo;

/// See the [module documentation](self). It stays the same when the level is configured anew.
#[derive(Debug, Default)]
pub(super) struct LevelRequests {
    requests: Mutex<Requests>,
    dispatched: AtomicU64,
    rejected: AtomicU64,
    cancelled: AtomicU64,
}

#[derive(Debug, Default)]
struct Requests {
    /// The requests in the order of their arrival.
    by_number: BTreeMap<u64, LevelRequest>,
    next: u64,
}

/// A request that waits or is executed.
#[derive(Debug, Clone)]
pub(super) struct LevelRequest {
    /// The flow schema of the request.
    pub schema: Arc<FlowSchema>,
    /// The name of the user.
    pub user: String,
    /// The verb and the resource.
    pub info: RequestInfo,
    /// The queue of the request; None if the level has none.
    pub queue: Option<u32>,
    /// The time of the arrival.
    pub arrival: Instant,
    /// The time at which the execution began; None while the request waits.
    pub started: Option<Instant>,
    /// The seats of the request.
    pub estimate: WorkEstimate,
}

/// The numbers of requests since the level was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestCounts {
    /// The requests that were executed.
    pub dispatched: u64,
    /// The requests that were refused, also those that left their queue.
    pub rejected: u64,
    /// The requests that left their queue because they waited too long or their client disconnected.
    pub cancelled: u64,
}

impl LevelRequests {
    /// Adds a request until the result is dropped. It waits until [`RecordedRequest::start`].
    pub(super) fn add(
        self: &Arc<Self>,
        schema: &Arc<FlowSchema>,
        request: SeatRequest<'_>,
        queue: Option<u32>,
        estimate: WorkEstimate,
    ) -> RecordedRequest {
        let recorded = LevelRequest {
            schema: Arc::clone(schema),
            user: request.user.name.clone(),
            info: request.info.clone(),
            queue,
            arrival: request.arrival,
            started: None,
            estimate,
        };
        let mut requests = self.lock();
        let number = requests.next;
        requests.next += 1;
        requests.by_number.insert(number, recorded);
        drop(requests);
        RecordedRequest { level: Arc::clone(self), number, is_started: false }
    }

    /// Counts a request that is refused before it waits.
    pub(super) fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests in the order of their arrival.
    pub(super) fn all(&self) -> Vec<LevelRequest> {
        self.lock().by_number.values().cloned().collect()
    }

    /// The numbers of requests so far.
    pub(super) fn counts(&self) -> RequestCounts {
        RequestCounts {
            dispatched: self.dispatched.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            cancelled: self.cancelled.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is recorded until this is dropped.
#[derive(Debug)]
pub(super) struct RecordedRequest {
    level: Arc<LevelRequests>,
    number: u64,
    is_started: bool,
}

impl RecordedRequest {
    /// Records that the execution begins.
    pub(super) fn start(&mut self) {
        self.is_started = true;
        self.level.dispatched.fetch_add(1, Ordering::Relaxed);
        if let Some(request) = self.level.lock().by_number.get_mut(&self.number) {
            request.started = Some(Instant::now());
        }
    }
}

impl Drop for RecordedRequest {
    fn drop(&mut self) {
        if !self.is_started {
            // Upstream: a request that leaves its queue counts as rejected and as cancelled.
            self.level.rejected.fetch_add(1, Ordering::Relaxed);
            self.level.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        self.level.lock().by_number.remove(&self.number);
    }
}
