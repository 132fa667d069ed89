//! [`Handler`]: answers reviews, from bytes to bytes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// Answers `AdmissionReview`s or `ConversionReview`s. The modules
/// [`admission`](crate::webhook::admission) and [`conversion`](crate::webhook::conversion) create
/// handlers.
#[derive(Clone)]
pub struct Handler {
    answer_fn: Arc<AnswerFn>,
    max_body: Option<usize>,
}

type AnswerFn = dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, BadReview>> + Send + Sync;

/// The body is not a valid review.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the review: {0}")]
pub struct BadReview(pub String);

impl Handler {
    /// A handler that calls `answer` with each body.
    pub fn new<F, A>(answer: F) -> Self
    where
        F: Fn(Bytes) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Bytes, BadReview>> + Send + 'static,
    {
        Self { answer_fn: Arc::new(move |body| answer(body).boxed()), max_body: None }
    }

    /// Sets the largest body of this handler, independent of its server's limit.
    #[must_use]
    pub fn with_max_body(self, bytes: usize) -> Self {
        Self { max_body: Some(bytes), ..self }
    }

    /// The answer to a body, for tests without a server.
    pub async fn answer(&self, body: Bytes) -> Result<Bytes, BadReview> {
        (self.answer_fn)(body).await
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
