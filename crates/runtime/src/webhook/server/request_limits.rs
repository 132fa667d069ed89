//! [`RequestLimits`]: limits the number of requests in progress and the bytes of their bodies, over all
//! connections.
//!
//! A body reserves its bytes as they arrive, but for its first [`UNCHARGED_BYTES`]: most reviews are
//! smaller, and never wait. A large body of a declared length reserves all of it when it is known to be
//! large, so that two of them do not wait for each other with a part of the memory each. The bytes stay
//! reserved until the response was written.
//!
//! ```text
//! exhausted ──▶ the slowest bodies without progress are dropped (503) ──▶ wait ──▶ 503
//! ```
//!
//! A body must receive [`WINDOW_BYTES`] in each [`body_timeout`](ServerOptions::body_timeout), so that a
//! client that sends a byte at a time does not hold the rest. When a limit is exhausted, a body that has needed more than
//! [`STALLED_AFTER`] for the same bytes is dropped.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::ServerOptions;

/// The bytes of each body that are not charged. The limit of requests in progress bounds their sum.
const UNCHARGED_BYTES: usize = 32 << 10;
/// The bytes that a body must receive in each [`body_timeout`](ServerOptions::body_timeout).
const WINDOW_BYTES: usize = 32 << 10;
/// The time after which a body without [`WINDOW_BYTES`] is dropped if a limit is exhausted.
const STALLED_AFTER: Duration = Duration::from_millis(500);
/// The longest time that a request waits when a limit is exhausted.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The number of bodies larger than [`max_body`](ServerOptions::max_body) in memory at a time.
const MAX_LARGE_BODIES: usize = 2;
/// The number of body bytes that handlers read at a time. A decoded value needs up to 17 times the
/// memory of its JSON.
const MAX_HANDLED_BYTES: usize = 16 << 20;

/// The reason why a body was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the review is too large")]
    TooLarge,
    #[error("the body arrives too slowly")]
    Slow,
    #[error("the webhook server has too many requests in progress, try again")]
    TooManyRequests,
    #[error("the webhook server has no memory for another review, try again")]
    Exhausted,
    #[error("the body made no progress while other reviews waited for memory")]
    Dropped,
    #[error("{0}")]
    Transport(Box<dyn std::error::Error + Send + Sync>),
}

impl BodyError {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooManyRequests | Self::Exhausted | Self::Dropped => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Transport(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct RequestLimits {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
    handled_bytes: Semaphore,
    /// The bodies that are being read, by number.
    reading: Mutex<BTreeMap<u64, BodyProgress>>,
    next_number: AtomicU64,
    body_timeout: Duration,
}

/// The progress of a body that is being read.
#[derive(Debug)]
struct BodyProgress {
    /// The begin of the present window.
    since: Instant,
    charged: usize,
    dropped: Arc<Notify>,
}

/// What a request has reserved, until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    _request: OwnedSemaphorePermit,
    bytes: Option<OwnedSemaphorePermit>,
    large_body: Option<OwnedSemaphorePermit>,
}

impl RequestLimits {
    pub(super) fn new(options: &ServerOptions) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits));
        Self {
            requests: semaphore(options.max_requests),
            bytes: semaphore(options.max_buffered),
            large_bodies: semaphore(MAX_LARGE_BODIES),
            handled_bytes: Semaphore::new(MAX_HANDLED_BYTES),
            reading: Mutex::default(),
            next_number: AtomicU64::new(0),
            body_timeout: options.body_timeout,
        }
    }

    /// Reads a body of at most `max_body` bytes. One of more than `max_small` bytes waits for other
    /// large ones.
    pub(super) async fn read(
        &self,
        body: Incoming,
        max_body: usize,
        max_small: usize,
    ) -> Result<(Bytes, Reservation), BodyError> {
        let request = self.acquire(&self.requests, 1).await.ok_or(BodyError::TooManyRequests)?;
        let mut reservation = Reservation { _request: request, bytes: None, large_body: None };
        let mut reader = BodyReader::new(self);
        // Longer bodies are refused before they are that long.
        let declared = body.size_hint().exact().and_then(|it| usize::try_from(it).ok());
        let declared = declared.filter(|declared| *declared <= max_body).unwrap_or_default();
        let (mut body, mut whole) = (Limited::new(body, max_body), BytesMut::new());
        while let Some(data) = reader.next(&mut body).await? {
            let length = whole.len() + data.len();
            if reservation.large_body.is_none() && length > max_small {
                reader.pause();
                let permit = Arc::clone(&self.large_bodies).acquire_owned().await;
                reservation.large_body = permit.ok();
            }
            let reserved =
                if reservation.large_body.is_some() { length.max(declared) } else { length };
            let charged = reserved.saturating_sub(UNCHARGED_BYTES);
            let needed = charged.saturating_sub(reservation.charged());
            if needed > 0 {
                reader.pause();
                let permit = self.acquire(&self.bytes, needed).await;
                reservation.charge(permit.ok_or(BodyError::Exhausted)?);
            }
            whole.extend_from_slice(&data);
            reader.received(data.len(), charged);
        }
        Ok((whole.freeze(), reservation))
    }

    /// Waits until a handler may read a body of this length.
    pub(super) async fn handle(&self, length: usize) -> Option<SemaphorePermit<'_>> {
        let charged = length.saturating_sub(UNCHARGED_BYTES).min(MAX_HANDLED_BYTES);
        self.handled_bytes.acquire_many(u32::try_from(charged).ok()?).await.ok()
    }

    /// Waits for permits, and drops bodies without progress meanwhile; None if that takes too long.
    async fn acquire(
        &self,
        semaphore: &Arc<Semaphore>,
        permits: usize,
    ) -> Option<OwnedSemaphorePermit> {
        let count = u32::try_from(permits).ok()?;
        if let Ok(permit) = Arc::clone(semaphore).try_acquire_many_owned(count) {
            return Some(permit);
        }
        let is_of_requests = Arc::ptr_eq(semaphore, &self.requests);
        let deadline = Instant::now() + MAX_WAIT;
        let mut acquired = pin!(Arc::clone(semaphore).acquire_many_owned(count));
        loop {
            let stalls = self.drop_stalled(permits, is_of_requests);
            tokio::select! {
                permit = &mut acquired => return permit.ok(),
                () = sleep_until(stalls.unwrap_or(deadline).min(deadline)) => {}
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Drops the slowest bodies without progress that hold `needed` permits. Returns the time when the
    /// next one counts as stalled.
    fn drop_stalled(&self, needed: usize, is_of_requests: bool) -> Option<Instant> {
        let now = Instant::now();
        let mut reading = self.lock();
        let mut released = 0;
        while released < needed {
            let held = |it: &BodyProgress| if is_of_requests { 1 } else { it.charged };
            let candidates = reading.iter().filter(|(_, it)| held(it) > 0);
            let (number, slowest) = candidates.min_by_key(|(_, it)| it.since)?;
            if now < slowest.since + STALLED_AFTER {
                return Some(slowest.since + STALLED_AFTER);
            }
            released += held(slowest);
            slowest.dropped.notify_one();
            let number = *number;
            reading.remove(&number);
        }
        Some(now + STALLED_AFTER)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, BodyProgress>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    fn charged(&self) -> usize {
        self.bytes.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn charge(&mut self, permit: OwnedSemaphorePermit) {
        match &mut self.bytes {
            Some(bytes) => bytes.merge(permit),
            None => self.bytes = Some(permit),
        }
    }
}

/// Reads the parts of a body with a minimum rate.
struct BodyReader<'a> {
    limits: &'a RequestLimits,
    number: u64,
    dropped: Arc<Notify>,
    window_start: Instant,
    window_bytes: usize,
    /// The time since when the server does not read, if it does not.
    paused: Option<Instant>,
}

impl<'a> BodyReader<'a> {
    fn new(limits: &'a RequestLimits) -> Self {
        let (since, dropped) = (Instant::now(), Arc::new(Notify::new()));
        let progress = BodyProgress { since, charged: 0, dropped: Arc::clone(&dropped) };
        let number = limits.next_number.fetch_add(1, Ordering::Relaxed);
        limits.lock().insert(number, progress);
        Self { limits, number, dropped, window_start: since, window_bytes: 0, paused: None }
    }

    /// The next data; None at the end of the body.
    async fn next(&mut self, body: &mut Limited<Incoming>) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = self.dropped.notified() => return Err(BodyError::Dropped),
                () = sleep_until(self.window_start + self.limits.body_timeout) => return Err(BodyError::Slow),
            };
            match frame {
                None => return Ok(None),
                Some(Err(error)) if error.is::<LengthLimitError>() => {
                    return Err(BodyError::TooLarge);
                }
                Some(Err(error)) => return Err(BodyError::Transport(error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The time until [`received`](Self::received) does not count: the server waits, not the client.
    fn pause(&mut self) {
        self.paused.get_or_insert_with(Instant::now);
        self.limits.lock().remove(&self.number);
    }

    /// Records that `length` bytes have arrived, of which `charged` are reserved in all.
    fn received(&mut self, length: usize, charged: usize) {
        if let Some(paused) = self.paused.take() {
            self.window_start += paused.elapsed();
        }
        self.window_bytes += length;
        if self.window_bytes >= WINDOW_BYTES {
            (self.window_start, self.window_bytes) = (Instant::now(), 0);
        }
        let (since, dropped) = (self.window_start, Arc::clone(&self.dropped));
        self.limits.lock().insert(self.number, BodyProgress { since, charged, dropped });
    }
}

impl Drop for BodyReader<'_> {
    fn drop(&mut self) {
        self.limits.lock().remove(&self.number);
    }
}
