//! [`WebhookBackend`]: posts events as an `EventList` to another server.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::backend::Delivery;
use crate::outbound::Outbound;
use crate::outbound::webhook_endpoint::WebhookEndpoint;
use keel::{Clock, Entropy, Tasks};

/// The time limit of one request. Upstream: that of all webhooks with a kubeconfig.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit of a request while the plane stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of times that a batch is sent before it counts as lost.
const ATTEMPTS: u32 = 5;

/// The factor by which the delay grows after each attempt.
const BACKOFF_FACTOR: f64 = 1.5;

/// The maximum random part of a delay, as a fraction of it.
const JITTER: f64 = 0.2;

/// The user agent of the requests. The value is upstream's.
const USER_AGENT: &str = "kube-apiserver-audit";

/// Settings of a webhook that receives events.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// The server, from a kubeconfig file.
    pub endpoint: WebhookEndpoint,
    /// The delay before the second attempt.
    pub initial_backoff: Duration,
    /// Whether requests wait for the webhook.
    pub delivery: Delivery,
}

/// See the [module documentation](self).
pub(super) struct WebhookBackend {
    outbound: Outbound,
    endpoint: WebhookEndpoint,
    initial_backoff: Duration,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
}

impl WebhookBackend {
    /// A client of the webhook. Nothing is sent yet.
    pub(super) fn new(
        settings: &WebhookSettings,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        Self {
            outbound: Outbound::default(),
            endpoint: settings.endpoint.clone(),
            initial_backoff: settings.initial_backoff,
            clock: clock.clone(),
            entropy: entropy.clone(),
            tasks: tasks.clone(),
        }
    }

    /// Sends events, again after a failure, with growing delays; once more at once if the plane stops.
    /// The error is a message.
    pub(super) async fn send(&self, events: &[Bytes]) -> Result<(), String> {
        let body = event_list(events);
        let mut delay = self.initial_backoff;
        for attempt in 1.. {
            let is_last = attempt == ATTEMPTS || self.tasks.is_stopping();
            match self.post(body.clone()).await {
                Ok(()) => break,
                Err(error) if is_last => return Err(error),
                Err(_) => {}
            }
            tokio::select! {
                () = self.clock.sleep(self.with_jitter(delay)) => {}
                () = self.tasks.shutdown() => {}
            }
            delay = delay.mul_f64(BACKOFF_FACTOR);
        }
        Ok(())
    }

    fn with_jitter(&self, delay: Duration) -> Duration {
        let parts = u32::try_from(self.entropy.below(1000)).unwrap_or_default();
        delay.mul_f64(1.0 + JITTER * f64::from(parts) / 1000.0)
    }

    async fn post(&self, body: Bytes) -> Result<(), String> {
        let timeout = if self.tasks.is_stopping() { STOP_TIMEOUT } else { TIMEOUT };
        let deadline = Instant::now() + timeout;
        let response = self.endpoint.post(&self.outbound, Some(USER_AGENT), body, deadline).await;
        let status = response.map_err(|error| error.to_string())?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(format!("the webhook responded with the status code {}", status.as_u16()))
    }
}

/// The events as an `EventList`.
fn event_list(events: &[Bytes]) -> Bytes {
    let size: usize = events.iter().map(Bytes::len).sum();
    let mut list = Vec::with_capacity(size + 128);
    list.extend_from_slice(
        br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#,
    );
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        list.extend_from_slice(event.trim_ascii_end());
    }
    list.extend_from_slice(b"]}\n");
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sent_as_a_list() {
        let list = event_list(&[Bytes::from("{\"a\":1}\n"), Bytes::from("{\"b\":2}\n")]);
        let text = std::str::from_utf8(&list).unwrap();
        assert!(text.ends_with("\"items\":[{\"a\":1},{\"b\":2}]}\n"), "{text}");
    }
}
