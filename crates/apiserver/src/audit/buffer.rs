//! [`Buffer`]: events that wait for their batch, and the task that stores the batches, one after the
//! other.
//!
//! The buffer is bounded by the number of events and by their size. When it is full, an event is
//! dropped and counted. When the plane stops, the task stores what is left; an event after that is
//! dropped and counted as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::backend::{BatchSettings, Target, Throttle};
use super::error_log::ErrorLog;
use super::truncation::Truncation;
use keel::{Clock, ClockInstant, Tasks};

/// The maximum size of all events in the buffer, in bytes. Upstream has no such limit.
const MAX_BYTES: usize = 64 << 20;

/// See the [module documentation](self).
pub(super) struct Buffer {
    events: mpsc::Sender<Bytes>,
    /// The size of the events in the buffer.
    bytes: Arc<AtomicUsize>,
    dropped: ErrorLog,
}

impl Buffer {
    /// Starts the task that stores batches.
    pub(super) fn start(
        settings: &BatchSettings,
        stored: Stored,
        dropped: ErrorLog,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(settings.buffer_size.max(1));
        let bytes = Arc::<AtomicUsize>::default();
        let batches = Batches {
            events: receiver,
            bytes: Arc::clone(&bytes),
            settings: settings.clone(),
            clock: clock.clone(),
            bucket: settings.throttle.map(|it| TokenBucket::new(it, clock)),
        };
        tasks.spawn("audit-batches", batches.run(stored, tasks.clone()));
        Self { events: sender, bytes, dropped }
    }

    /// Adds an event, or drops and counts it.
    pub(super) fn add(&self, event: Bytes) {
        let size = event.len();
        if self.bytes.fetch_add(size, Ordering::Relaxed) + size > MAX_BYTES {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            return self.dropped.add(1, "audit buffer queue blocked");
        }
        if let Err(error) = self.events.try_send(event) {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            let why = match error {
                mpsc::error::TrySendError::Full(_) => "audit buffer queue blocked",
                mpsc::error::TrySendError::Closed(_) => "audit backend shut down",
            };
            self.dropped.add(1, why);
        }
    }
}

/// Where batches are stored.
pub(super) struct Stored {
    pub target: Arc<Target>,
    /// The log of the events that cannot be stored.
    pub errors: Arc<ErrorLog>,
    /// The limit of the size of batches, if there is one.
    pub truncation: Option<Truncation>,
}

impl Stored {
    async fn store(&self, batch: &[Bytes]) {
        let Some(truncation) = self.truncation else { return self.store_part(batch).await };
        for part in truncation.split(batch) {
            self.store_part(part).await;
        }
    }

    async fn store_part(&self, part: &[Bytes]) {
        if let Err(error) = self.target.store(part).await {
            self.errors.add(part.len() as u64, &error);
        }
    }
}

/// The other end of a buffer.
struct Batches {
    events: mpsc::Receiver<Bytes>,
    bytes: Arc<AtomicUsize>,
    settings: BatchSettings,
    clock: Clock,
    bucket: Option<TokenBucket>,
}

impl Batches {
    /// Stores batches until the plane stops and the buffer is empty.
    async fn run(mut self, stored: Stored, tasks: Tasks) {
        loop {
            let batch = self.collect(&tasks).await;
            if batch.is_empty() {
                return;
            }
            if let Some(bucket) = &mut self.bucket {
                tokio::select! {
                    () = bucket.take() => {}
                    () = tasks.shutdown() => {}
                }
            }
            stored.store(&batch).await;
            let size: usize = batch.iter().map(Bytes::len).sum();
            self.bytes.fetch_sub(size, Ordering::Relaxed);
        }
    }

    /// The next batch; empty after the plane has stopped.
    async fn collect(&mut self, tasks: &Tasks) -> Vec<Bytes> {
        let max_size = self.settings.max_size.max(1);
        let mut batch = Vec::new();
        let shutdown = tasks.shutdown();
        tokio::pin!(shutdown);
        let first = tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = &mut shutdown => {
                // What is in the buffer now is received, and nothing is added.
                self.events.close();
                self.events.recv().await
            }
        };
        batch.extend(first);
        let wait = self.clock.sleep(self.settings.max_wait);
        tokio::pin!(wait);
        while !batch.is_empty() && batch.len() < max_size {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Some(event) => batch.push(event),
                    None => break,
                },
                () = &mut wait => break,
                () = &mut shutdown, if !self.events.is_closed() => self.events.close(),
            }
        }
        batch
    }
}

/// Limits the rate of batches.
struct TokenBucket {
    throttle: Throttle,
    tokens: f64,
    at: ClockInstant,
    clock: Clock,
}

impl TokenBucket {
    fn new(throttle: Throttle, clock: &Clock) -> Self {
        let tokens = burst(throttle);
        Self { throttle, tokens, at: clock.instant(), clock: clock.clone() }
    }

    /// Waits for a token.
    async fn take(&mut self) {
        loop {
            let elapsed = self.clock.elapsed_since(&self.at).as_secs_f64();
            self.at = self.clock.instant();
            let rate = f64::from(self.throttle.qps);
            self.tokens = elapsed.mul_add(rate, self.tokens).min(burst(self.throttle));
            if self.tokens >= 1.0 {
                self.tokens -= 1.0;
                return;
            }
            let missing = (1.0 - self.tokens) / rate;
            self.clock.sleep(std::time::Duration::from_secs_f64(missing.clamp(0.001, 60.0))).await;
        }
    }
}

fn burst(throttle: Throttle) -> f64 {
    f64::from(u32::try_from(throttle.burst.max(1)).unwrap_or(u32::MAX))
}
