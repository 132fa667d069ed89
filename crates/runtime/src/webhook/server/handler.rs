//! [`Handler`]: responds to reviews, from bytes to bytes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use informer::HasSynced;

/// Responds to `AdmissionReview`s or `ConversionReview`s. The modules
/// [`admission`](crate::webhook::admission) and [`conversion`](crate::webhook::conversion) create
/// handlers.
#[derive(Clone)]
pub struct Handler {
    respond_fn: Arc<RespondFn>,
    max_body: Option<usize>,
    /// The caches that must be complete before a review is responded to.
    caches: Vec<HasSynced>,
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
        let respond_fn = Arc::new(move |body| respond(body).boxed());
        Self { respond_fn, max_body: None, caches: Vec::new() }
    }

    /// Sets the largest body of this handler, independent of its server's limit.
    #[must_use]
    pub fn with_max_body(self, bytes: usize) -> Self {
        Self { max_body: Some(bytes), ..self }
    }

    /// Lets each review wait until the cache of an informer is complete, for a handler that reads
    /// it: a manager serves webhooks before its caches are complete, since their lists may need its
    /// conversion. Shortly before the API server's timeout, the review fails with a message that says
    /// so, and the failure policy of the webhook decides.
    ///
    /// ```no_run
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube_core::admission::AdmissionRequest;
    /// use runtime::Manager;
    /// use runtime::webhook::{Allowed, Denied, Handler, admission};
    ///
    /// fn limit_number(manager: &Manager) -> Handler {
    ///     let maps = manager.informer::<ConfigMap>();
    ///     let synced = maps.has_synced();
    ///     let handler = admission::validating(move |_: AdmissionRequest<ConfigMap>| {
    ///         let is_full = maps.lister::<ConfigMap>().list().objects.len() > 99;
    ///         async move { if is_full { Err(Denied::new("too many")) } else { Ok(Allowed::default()) } }
    ///     });
    ///     handler.after_sync(synced)
    /// }
    /// ```
    #[must_use]
    pub fn after_sync(mut self, cache: HasSynced) -> Self {
        self.caches.push(cache);
        self
    }

    /// The response to a body, for tests without a server. It does not wait for caches.
    pub async fn respond(&self, body: Bytes) -> Result<Bytes, BadReview> {
        (self.respond_fn)(body).await
    }

    /// Waits until all caches are complete; false if an informer was stopped before.
    pub(super) async fn wait_for_caches(&self) -> bool {
        for cache in &self.caches {
            if !cache.clone().wait().await {
                return false;
            }
        }
        true
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
