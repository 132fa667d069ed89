//! [`RequestContext`]: what is known of a request by the time it reaches an endpoint.

use crate::cache::catalog::Served;
use crate::cache::watch_cache::Entry;
use crate::flow_control;
use crate::flow_control::AnswerAccount;
use crate::http::negotiation::MediaTypeOptions;
use crate::plane::Plane;
use crate::registry::scope::{RequestScope, ScopeParts};
use machinery::Status;
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) struct RequestContext {
    /// The plane that answers the request.
    pub plane: Arc<Plane>,
    /// What the request is about.
    pub scope: RequestScope,
    /// The form of the answer.
    pub accepted: MediaTypeOptions,
    /// The form of an answer that is an error.
    pub error_media_type: MediaTypeOptions,
    /// The body's media type, or "".
    pub content_type: String,
    /// Whether the client asks to switch to another protocol.
    pub upgrade: bool,
    /// Counts the answers of the client's connections; None if they are not limited.
    pub account: Option<Arc<AnswerAccount>>,
}

/// What [`RequestContext::new`] is made from.
pub(crate) struct ContextParts {
    pub plane: Arc<Plane>,
    pub scope: ScopeParts,
    pub error_media_type: MediaTypeOptions,
    pub content_type: String,
    pub upgrade: bool,
    pub account: Option<Arc<AnswerAccount>>,
}

impl RequestContext {
    /// The context of a request for `served`.
    pub(crate) fn new(
        parts: ContextParts,
        accepted: MediaTypeOptions,
        served: Arc<Served>,
        version: usize,
    ) -> Self {
        let ContextParts { plane, scope, error_media_type, content_type, upgrade, account } = parts;
        let scope = RequestScope::new(scope, served, version);
        Self { plane, scope, accepted, error_media_type, content_type, upgrade, account }
    }

    /// Refuses a read whose answer has about this many bytes, if the client has not read enough of
    /// the answers before it. The answer to a write has to be made.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Status> {
        if !self.scope.verb.is_read_only() {
            return Ok(());
        }
        flow_control::check_room(self.account.as_deref(), bytes)
    }

    /// The named object as it is now.
    pub(crate) async fn find_current(&self) -> Result<Arc<Entry>, Status> {
        self.scope.catch_up().await?;
        self.find()
    }

    /// The named object as far as this plane knows, if the client may see it.
    pub(crate) fn find(&self) -> Result<Arc<Entry>, Status> {
        let found = self.scope.served.cache.get(&self.scope.key());
        found
            .filter(|it| !it.uninitialized || self.scope.includes_uninitialized())
            .ok_or_else(|| self.scope.not_found())
    }
}
