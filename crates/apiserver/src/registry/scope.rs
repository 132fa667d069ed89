//! [`RequestScope`]: the resource, version, object and user of a read or a write of stored objects.
//! It does not depend on HTTP: endpoints parse the options of a request and pass them on.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::pending_writes::PendingWrites;
use crate::audit::AuditContext;
use crate::auth::authentication::User;
use crate::cache::watch_cache::Entry;
use crate::flow_control::SeatHandle;
use crate::registry::errors;
use crate::request::warnings::Warnings;
use crate::request::{ResourcePath, Verb};
use crate::storage::Storage;
use crate::storage::catalog::ServedResource;
use crate::storage::unreadable_error;
use machinery::{ErrorList, GroupResource, Status, Value};
use types::Resource;
use types::resource::Version;

/// See the [module documentation](self).
pub(crate) struct RequestScope {
    /// The storage of the plane.
    pub storage: Arc<Storage>,
    /// The user, after impersonation.
    pub user: User,
    /// The verb of the request.
    pub verb: Verb,
    /// The resource and the object that the request names.
    pub path: ResourcePath,
    /// The resource that the path names.
    pub served: Arc<ServedResource>,
    /// The index of the version that the path names.
    pub version: usize,
    /// The field manager of the request.
    pub field_manager: String,
    /// The time by which the request must be answered.
    pub deadline: Instant,
    /// The writes of the request whose outcome is not known yet.
    pub writes: PendingWrites,
    /// The seat of the request in flow control, which is lent to other requests while it waits for
    /// a webhook.
    pub seat: SeatHandle,
    /// The audit event of the request; None if it is not audited.
    pub audit: Option<Arc<AuditContext>>,
    /// The warnings of the response.
    warnings: Arc<Mutex<Warnings>>,
    /// The path and value of each empty list and map that the client sent.
    sent_empty: Mutex<Vec<(String, Value)>>,
}

/// The maximum number of empty lists and maps that are recorded.
const MAX_SENT_EMPTY: usize = 100;

/// The parameters of [`RequestScope::new`].
pub(crate) struct ScopeParts {
    pub storage: Arc<Storage>,
    pub user: User,
    pub verb: Verb,
    pub path: ResourcePath,
    pub field_manager: String,
    pub deadline: Instant,
    pub writes: PendingWrites,
    pub seat: SeatHandle,
    pub audit: Option<Arc<AuditContext>>,
}

impl RequestScope {
    /// The scope of a request for `served`. A deprecated version adds a warning and audit annotations.
    pub(crate) fn new(parts: ScopeParts, served: Arc<ServedResource>, version: usize) -> Self {
        let ScopeParts { storage, user, verb, path, field_manager, deadline, writes, .. } = parts;
        let (seat, audit) = (parts.seat, parts.audit);
        let mut warnings = Warnings::default();
        let requested = served.version(version);
        if let Some(warning) = &requested.deprecation {
            warnings.add(warning.clone());
            if let Some(audit) = &audit {
                audit.annotate_deprecated(requested.removed_release());
            }
        }
        Self {
            storage,
            user,
            verb,
            path,
            served,
            version,
            field_manager,
            deadline,
            writes,
            seat,
            audit,
            warnings: Arc::new(Mutex::new(warnings)),
            sent_empty: Mutex::default(),
        }
    }

    /// The scope of a write to another object within the same request. The scopes share their
    /// warnings.
    pub(crate) fn for_other_object(
        &self,
        served: &Arc<ServedResource>,
        version: usize,
        path: ResourcePath,
    ) -> Self {
        Self {
            storage: Arc::clone(&self.storage),
            user: self.user.clone(),
            verb: self.verb,
            path,
            served: Arc::clone(served),
            version,
            field_manager: self.field_manager.clone(),
            deadline: self.deadline,
            writes: self.writes.clone(),
            seat: self.seat.clone(),
            audit: self.audit.clone(),
            warnings: Arc::clone(&self.warnings),
            sent_empty: Mutex::default(),
        }
    }

    /// Whether the deadline of the request has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The failure of a request whose deadline has passed.
    pub(crate) fn overdue() -> Status {
        let why = "request did not complete within requested timeout - context deadline exceeded";
        Status::timeout(why, 0)
    }

    /// The resource that the path names.
    pub(crate) fn resource(&self) -> &Resource {
        &self.served.resource
    }

    /// The version that the path names.
    pub(crate) fn version(&self) -> &Version {
        self.served.version(self.version)
    }

    /// The group and resource, such as `deployments.apps`, for messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        self.served.resource.group_resource()
    }

    /// The namespace of a namespaced resource, "" for a cluster-scoped one. Namespaces are
    /// cluster-scoped.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource().namespaced { &self.path.namespace } else { "" }
    }

    /// The key of the named object.
    pub(crate) fn key(&self) -> String {
        self.served.key(self.namespace(), &self.path.name)
    }

    /// Waits until everything that was written before this call can be read.
    pub(crate) async fn catch_up(&self) -> Result<(), Status> {
        let caught_up = self.storage.cache.catch_up().await;
        caught_up.map_err(|error| errors::of_store(&self.group_resource(), &self.path.name, &error))
    }

    /// The object at `key`, if it is stored. Fails if it cannot be decrypted.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Arc<Entry>>, Status> {
        if let Some(entry) = self.served.cache.get(key) {
            return Ok(Some(entry));
        }
        unreadable_error::check_object(&self.served.cache.snapshot(), key).map(|()| None)
    }

    /// Records an empty list or map that the client sent.
    pub(crate) fn record_empty(&self, path: String, value: Value) {
        let mut sent = self.sent_empty.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.len() < MAX_SENT_EMPTY {
            sent.push((path, value));
        }
    }

    /// The Status for an invalid object. An empty list or map counts as absent, and errors show it as
    /// it was sent.
    pub(crate) fn invalid(&self, name: &str, mut errors: ErrorList) -> Status {
        let sent = self.sent_empty.lock().unwrap_or_else(PoisonError::into_inner);
        for (path, value) in sent.iter() {
            errors.replace_null_value(path, value);
        }
        Status::invalid(&self.resource().group_kind(), name, &errors)
    }

    /// Adds a warning to the response. A repeated warning is sent once.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).add(warning);
    }

    /// Removes and returns the warnings.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *warnings).into_texts()
    }

    /// The Status 404 for the named object.
    pub(crate) fn not_found(&self) -> Status {
        // Events are served in two groups. The Status names the group of the request.
        let mut group_resource = self.group_resource();
        if let Some(group) = &self.version().group {
            group_resource.group.clone_from(group);
        }
        Status::not_found(&group_resource, &self.path.name)
    }
}
