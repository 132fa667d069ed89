//! [`ReflectorOptions`]: page size, timeouts and backoff.

use std::time::Duration;

/// The options of a [`Reflector`](super::Reflector).
#[derive(Debug, Clone)]
pub struct ReflectorOptions {
    /// The number of items in a page.
    pub page_size: u32,
    /// The time after which a request for a page or for a watch has failed if it was not answered.
    pub request_timeout: Duration,
    /// The shortest timeout of a watch. The timeout of each watch is drawn between this and twice
    /// as much, so that the watches of many clients do not end together. A watch that the server
    /// leaves open for longer counts as failed. `None` for watches without a timeout.
    pub watch_timeout: Option<Duration>,
    /// The longest delay after a first failure.
    pub backoff_base: Duration,
    /// The longest delay after many failures.
    pub backoff_cap: Duration,
    /// Whether the first of several failures in a row is retried without a delay. Only for a
    /// source with one reflector: after a restart, the many clients of a server must not return together.
    pub retries_at_once: bool,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            page_size: 500,
            request_timeout: Duration::from_mins(1),
            watch_timeout: Some(Duration::from_mins(5)),
            backoff_base: Duration::from_millis(800),
            backoff_cap: Duration::from_secs(30),
            retries_at_once: false,
        }
    }
}
