//! [`Connections`]: limits the number of connections of a webhook server, and the time that they are
//! unused.
//!
//! At the limit, a new connection evicts another one, so that clients that hold idle connections do
//! not keep the API server out. The first of these is evicted, and the oldest of its kind:
//!
//! 1. idle connections on which no review was answered,
//! 2. other connections on which no review was answered,
//! 3. idle connections,
//! 4. all others.
//!
//! Only an answered review renews the time that a connection may be idle: requests for the health of
//! the server do not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::ServerOptions;

/// The time for the client to read a response after the handler's timeout.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Connections {
    max_open: usize,
    timeouts: Timeouts,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    first_request: Duration,
    idle: Duration,
    request: Duration,
}

/// The connections that are not evicted, by number; the oldest is the first.
#[derive(Debug, Default)]
struct OpenConnections {
    connections: BTreeMap<u64, OpenConnection>,
    next: u64,
}

#[derive(Debug)]
struct OpenConnection {
    usage: Requests,
    evicted: Arc<Notify>,
}

/// The reason why a connection is closed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There is no request.
    Idle,
    /// A response was not read in time.
    Stuck,
}

/// The requests of a connection.
#[derive(Debug, Clone)]
pub(super) struct Requests(Arc<watch::Sender<Usage>>);

#[derive(Debug)]
struct Usage {
    /// The time since when the connection counts as idle, once there are no pending requests.
    since: Instant,
    has_request: bool,
    has_answered_review: bool,
    next: u64,
    /// The begin of each pending request, by number; the oldest is the first.
    pending: BTreeMap<u64, Instant>,
}

impl Usage {
    /// The order of eviction; the lowest first.
    fn rank(&self) -> (bool, bool, Instant) {
        (self.has_answered_review, !self.pending.is_empty(), self.since)
    }

    fn deadline(&self, timeouts: &Timeouts) -> (Instant, End) {
        match self.pending.first_key_value() {
            Some((_, begun)) => (*begun + timeouts.request, End::Stuck),
            None if self.has_request => (self.since + timeouts.idle, End::Idle),
            None => (self.since + timeouts.first_request, End::Idle),
        }
    }
}

impl Connections {
    pub(super) fn new(options: &ServerOptions) -> Self {
        let timeouts = Timeouts {
            first_request: options.first_request_timeout,
            idle: options.idle_timeout,
            request: options.handler_timeout + RESPONSE_TIMEOUT,
        };
        let max_open = options.max_connections.max(1);
        Self { max_open, timeouts, open: Mutex::default() }
    }

    /// Adds an accepted connection.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let usage = Usage {
            since: Instant::now(),
            has_request: false,
            has_answered_review: false,
            next: 0,
            pending: BTreeMap::new(),
        };
        let requests = Requests(Arc::new(watch::Sender::new(usage)));
        let evicted = Arc::new(Notify::new());
        let mut open = self.lock();
        if open.connections.len() >= self.max_open {
            let ranks =
                open.connections.iter().map(|(number, it)| (it.usage.0.borrow().rank(), *number));
            let number = ranks.min().map(|(_, number)| number);
            if let Some(connection) = number.and_then(|it| open.connections.remove(&it)) {
                connection.evicted.notify_one();
            }
        }
        let number = open.next;
        open.next += 1;
        let connection = OpenConnection { usage: requests.clone(), evicted: Arc::clone(&evicted) };
        open.connections.insert(number, connection);
        drop(open);
        Connection { connections: Arc::clone(self), number, requests, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    requests: Requests,
    evicted: Arc<Notify>,
}

impl Connection {
    /// Waits until a newer connection needs the place of this one.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    pub(super) fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Waits until the connection has no request for too long, or a request has no end.
    pub(super) async fn unused(&self) -> End {
        let mut usage = self.requests.0.subscribe();
        loop {
            let (deadline, end) = usage.borrow_and_update().deadline(&self.connections.timeouts);
            if timeout_at(deadline, usage.changed()).await.is_err() {
                return end;
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
    }
}

impl Requests {
    /// Counts a request as pending until the result is dropped.
    pub(super) fn begin(&self) -> PendingRequest {
        let mut number = 0;
        self.0.send_modify(|usage| {
            number = usage.next;
            usage.next += 1;
            if !usage.has_request {
                (usage.has_request, usage.since) = (true, Instant::now());
            }
            usage.pending.insert(number, Instant::now());
        });
        PendingRequest { requests: self.clone(), number, is_answered_review: false }
    }
}

/// A request whose response was not written yet.
#[derive(Debug)]
pub(super) struct PendingRequest {
    requests: Requests,
    number: u64,
    is_answered_review: bool,
}

impl PendingRequest {
    /// Records that the request is a review with a valid response.
    pub(super) fn answer_review(&mut self) {
        self.is_answered_review = true;
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.requests.0.send_modify(|usage| {
            usage.pending.remove(&self.number);
            if self.is_answered_review {
                usage.has_answered_review = true;
                usage.since = Instant::now();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn connections() -> Arc<Connections> {
        let options = ServerOptions {
            first_request_timeout: 2 * SECOND,
            idle_timeout: 10 * SECOND,
            handler_timeout: 20 * SECOND,
            ..ServerOptions::default()
        };
        Arc::new(Connections::new(&options))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answered_review_renews_an_idle_connection_and_a_health_request_does_not() {
        let connection = connections().open();
        let start = Instant::now();
        let requests = connection.requests();
        drop(requests.begin());
        tokio::time::advance(6 * SECOND).await;
        drop(requests.begin());
        assert_eq!((connection.unused().await, start.elapsed().as_secs()), (End::Idle, 10));
        let mut review = requests.begin();
        review.answer_review();
        drop(review);
        assert_eq!((connection.unused().await, start.elapsed().as_secs()), (End::Idle, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_read_ends_the_connection_though_others_are_read() {
        let connection = connections().open();
        let start = Instant::now();
        let _unread = connection.requests().begin();
        tokio::time::advance(40 * SECOND).await;
        drop(connection.requests().begin());
        assert_eq!((connection.unused().await, start.elapsed().as_secs()), (End::Stuck, 50));
    }
}
