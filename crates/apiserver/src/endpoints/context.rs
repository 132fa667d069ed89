//! [`RequestContext`]: everything that an endpoint needs to know about a request.

use std::sync::Arc;

use crate::cache::watch_cache::Entry;
use crate::flow_control;
use crate::flow_control::{AnswerAccount, TrackedWatch};
use crate::http::negotiation::MediaTypeOptions;
use crate::plane::Plane;
use crate::registry::scope::{RequestScope, ScopeParts};
use crate::request::Query;
use crate::storage::catalog::ServedResource;
use informer::shared_items::AcceptItems;
use machinery::Status;

/// See the [module documentation](self).
pub(crate) struct RequestContext {
    /// The plane that serves the request.
    pub plane: Arc<Plane>,
    /// The user, the resource and the object of the request.
    pub scope: RequestScope,
    /// The query parameters, which endpoints parse into options.
    pub query: Query,
    /// The negotiated media type and representation.
    pub accepted: MediaTypeOptions,
    /// The media type of an error response.
    pub error_media_type: MediaTypeOptions,
    /// The `Content-Type` of the request body, or "".
    pub content_type: String,
    /// Whether the client requests a protocol upgrade.
    pub upgrade: bool,
    /// Counts the unread responses of the user; None if they are not limited.
    pub account: Option<Arc<AnswerAccount>>,
    /// Counts the watch as long as it is in progress; None for other requests.
    _watch: Option<TrackedWatch>,
    /// Whether a client in this process accepts items that share the bytes of the cache.
    pub accept_items: Option<AcceptItems>,
}

/// The arguments of [`RequestContext::new`].
pub(crate) struct ContextParts {
    pub plane: Arc<Plane>,
    pub scope: ScopeParts,
    pub query: Query,
    pub error_media_type: MediaTypeOptions,
    pub content_type: String,
    pub upgrade: bool,
    pub account: Option<Arc<AnswerAccount>>,
    pub watch: Option<TrackedWatch>,
    pub accept_items: Option<AcceptItems>,
}

impl RequestContext {
    /// The context of a request for `served`.
    pub(crate) fn new(
        parts: ContextParts,
        accepted: MediaTypeOptions,
        served: Arc<ServedResource>,
        version: usize,
    ) -> Self {
        let ContextParts { plane, query, error_media_type, content_type, upgrade, account, .. } =
            parts;
        let scope = RequestScope::new(parts.scope, served, version);
        Self {
            plane,
            scope,
            query,
            accepted,
            error_media_type,
            content_type,
            upgrade,
            account,
            _watch: parts.watch,
            accept_items: parts.accept_items,
        }
    }

    /// The items that the client accepts, if it is in this process and requests whole objects whose
    /// stored bytes can be shared.
    pub(crate) fn accept_items(&self) -> Option<AcceptItems> {
        let is_shareable = self.accepted == MediaTypeOptions::JSON
            && self.scope.served.conversion.serves_stored_bytes();
        self.accept_items.filter(|_| is_shareable)
    }

    /// Whether the client requests objects with pending initializers too.
    pub(crate) fn includes_uninitialized(&self) -> bool {
        self.query.flag("includeUninitialized")
    }

    /// Rejects a read whose response has about this many bytes, if the user has too many unread
    /// responses. A write is never rejected: its response must be sent.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Status> {
        if !self.scope.verb.is_read_only() {
            return Ok(());
        }
        flow_control::check_room(self.account.as_deref(), bytes)
    }

    /// The named object, after the cache has caught up with the store.
    pub(crate) async fn find_current(&self) -> Result<Arc<Entry>, Status> {
        self.scope.catch_up().await?;
        self.find()
    }

    /// The named object in the cache, if the client may see it.
    pub(crate) fn find(&self) -> Result<Arc<Entry>, Status> {
        let found = self.scope.find(&self.scope.key())?;
        found
            .filter(|it| !it.uninitialized || self.includes_uninitialized())
            .ok_or_else(|| self.scope.not_found())
    }
}
