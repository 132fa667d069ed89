//! [`Handler`]: responds to reviews, from bytes to bytes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Responds to `AdmissionReview`s or `ConversionReview`s. The modules
/// [`admission`](crate::webhook::admission) and [`conversion`](crate::webhook::conversion) create
/// handlers.
#[derive(Clone)]
pub struct Handler {
    respond_fn: Arc<RespondFn>,
    max_body: Option<usize>,
}

type RespondFn = dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, BadReview>> + Send + Sync;

/// The body is not a valid review.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the review: {0}")]
pub struct BadReview(pub String);

impl Handler {
    /// A handler that calls `respond` with each body.
    pub fn new<F, A>(respond: F) -> Self
    where
        F: Fn(Bytes) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Bytes, BadReview>> + Send + 'static,
    {
        Self { respond_fn: Arc::new(move |body| respond(body).boxed()), max_body: None }
    }

    /// Sets the largest body of this handler, independent of its server's limit.
    #[must_use]
    pub fn with_max_body(self, bytes: usize) -> Self {
        Self { max_body: Some(bytes), ..self }
    }

    /// The response to a body, for tests without a server.
    pub async fn respond(&self, body: Bytes) -> Result<Bytes, BadReview> {
        (self.respond_fn)(body).await
    }

    pub(super) fn max_body(&self) -> Option<usize> {
        self.max_body
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
