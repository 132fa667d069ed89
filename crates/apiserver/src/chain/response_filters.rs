//! [`ResponseFilters`]: the stages that wrap the chain because they also see the response:
//! deadline, panic recovery, audit, writes that outlive the request, metrics, compression.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use tokio::time::Instant;

use super::Terminated;
use super::received_request::ReceivedRequest;
use super::request_labels;
use crate::audit::AuditContext;
use crate::http::body::Body;
use crate::http::negotiation::MediaTypeOptions;
use crate::http::{compression, response};
use crate::in_process::handler::Peer;
use crate::metrics::{InFlightRequest, RequestLabels};
use crate::plane::Plane;
use crate::registry::pending_writes::{FinishWrites, PendingWrites};
use machinery::Status;

/// See the [module documentation](self).
pub(super) struct ResponseFilters {
    plane: Arc<Plane>,
    labels: RequestLabels,
    started: Instant,
    timeout: Duration,
    /// Counts the request as in flight; None for a long-running request.
    in_flight: Option<InFlightRequest>,
    is_read_only: bool,
    compresses: bool,
    writes: PendingWrites,
    /// None if the plane is not audited.
    audit: Option<Arc<AuditContext>>,
    is_long_running: bool,
}

impl ResponseFilters {
    /// Starts the filters of a received request.
    pub(super) fn begin<B>(
        plane: &Arc<Plane>,
        peer: &Peer,
        request: &Request<B>,
        received: &ReceivedRequest,
        audit: Option<Arc<AuditContext>>,
    ) -> Self {
        let ReceivedRequest { info, query, started, deadline } = received;
        let is_read_only = info.verb.is_read_only();
        let counts = &plane.metrics.in_flight;
        let in_flight = match is_read_only {
            _ if info.is_long_running() => None,
            true => Some(counts.read()),
            false => Some(counts.write()),
        };
        Self {
            plane: Arc::clone(plane),
            labels: request_labels::of(plane, request, info, query),
            started: *started,
            timeout: *deadline - *started,
            in_flight,
            is_read_only,
            compresses: peer.remote && compression::accepts_gzip(request.headers()),
            writes: PendingWrites::default(),
            audit,
            is_long_running: info.is_long_running(),
        }
    }

    /// The writes of the request whose outcome the store has not decided yet.
    pub(super) fn writes(&self) -> PendingWrites {
        self.writes.clone()
    }

    /// Runs `work` and returns its response.
    pub(super) async fn run(
        self,
        work: Pin<Box<dyn Future<Output = Response<Body>> + Send>>,
    ) -> Response<Body> {
        let (writes, compresses) = (self.writes.clone(), self.compresses);
        let response = if self.is_read_only {
            let work = recording_waits(self.audit.clone(), work);
            self.count(work).await
        } else {
            // The inner `FinishWrites` finishes the writes after an exceeded deadline, and the outer
            // one after a disconnect of the client.
            let tasks = self.plane.storage.tasks.clone();
            let work = FinishWrites::new(work, &writes, &tasks);
            let counted = Box::pin(self.count(work));
            FinishWrites::new(counted, &writes, &tasks).await
        };
        if compresses { compression::compress(response) } else { response }
    }

    /// Runs `work` and records the metrics of the response.
    async fn count(self, work: impl Future<Output = Response<Body>>) -> Response<Body> {
        let Self { plane, labels, started, timeout, in_flight, audit, is_long_running, .. } = self;
        let deadline = started + timeout;
        let response = match with_timeout_and_recovery(timeout, work).await {
            Ok(mut response) => {
                if response.extensions_mut().remove::<Terminated>().is_some() {
                    plane.metrics.count_termination(&labels, response.status().as_u16());
                }
                match audit {
                    Some(audit) => audit.finish(response, is_long_running, deadline).await,
                    None => response,
                }
            }
            Err(PanicResponse { response, message }) => {
                tracing::error!(?labels, "a request panicked");
                plane.metrics.count_termination(&labels, response.status().as_u16());
                if let Some(audit) = audit {
                    audit.finish_panic(&message, deadline).await;
                }
                response
            }
        };
        drop(in_flight);
        plane.metrics.observe_response(&labels, response, started.elapsed())
    }
}

/// Runs the work of a read, and records that it was received as soon as it waits.
async fn recording_waits(
    audit: Option<Arc<AuditContext>>,
    mut work: Pin<Box<dyn Future<Output = Response<Body>> + Send>>,
) -> Response<Body> {
    let Some(audit) = audit else { return work.await };
    poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            audit.record_deferred();
        }
        polled
    })
    .await
}

/// The response to a request that panicked.
#[derive(Debug)]
struct PanicResponse {
    response: Response<Body>,
    /// The message of the panic.
    message: String,
}

/// The response of `work`, or a timeout Status. If `work` panics, the Err has the response 500.
async fn with_timeout_and_recovery(
    timeout: Duration,
    work: impl Future<Output = Response<Body>>,
) -> Result<Response<Body>, PanicResponse> {
    match tokio::time::timeout(timeout, AssertUnwindSafe(work).catch_unwind()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(panic)) => {
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            let message = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(PanicResponse {
                response: response::text(500, text),
                message: message.unwrap_or_default(),
            })
        }
        Err(_) => {
            let why = "request did not complete within the allotted timeout";
            let status = Status::timeout(why, 0);
            let mut response = response::failure(&status, MediaTypeOptions::JSON);
            response.extensions_mut().insert(Terminated);
            Ok(response)
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn text(response: Response<Body>) -> (u16, String) {
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_panic_results_in_an_internal_error() {
        let result =
            with_timeout_and_recovery(Duration::from_mins(1), async { panic!("as if by a bug") })
                .await;
        let PanicResponse { response, message } = result.err().unwrap();
        assert_eq!(message, "as if by a bug");
        let (code, body) = text(response).await;
        assert_eq!(code, 500);
        assert_eq!(body, "This request caused apiserver to panic. Look in the logs for details.");
    }

    #[tokio::test]
    async fn an_exceeded_deadline_results_in_a_timeout() {
        let result = with_timeout_and_recovery(Duration::ZERO, std::future::pending()).await;
        let (code, body) = text(result.unwrap()).await;
        assert_eq!(code, 504);
        assert!(body.contains("request did not complete within the allotted timeout"), "{body}");
    }
}
