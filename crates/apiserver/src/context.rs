//! [`Cx`]: what is known of a request by the time it reaches an endpoint.

use crate::authentication::User;
use crate::catalog::Served;
use crate::errors;
use crate::flow_control::{self, AnswerAccount, SeatHandle};
use crate::negotiation::Accepted;
use crate::pending_writes::PendingWrites;
use crate::plane::Plane;
use crate::request::{Query, Target, Verb};
use crate::warnings::Warnings;
use crate::watch_cache::Entry;
use machinery::{ErrorList, GroupResource, Status, Value};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;
use types::Resource;
use types::resource::Version;

/// See the [module documentation](self).
pub(crate) struct Cx {
    /// What all requests share.
    pub plane: Arc<Plane>,
    /// Who asks.
    pub user: User,
    /// For what.
    pub verb: Verb,
    /// Of what.
    pub target: Target,
    /// With which parameters.
    pub query: Query,
    /// How the answer is to look.
    pub accepted: Accepted,
    /// How it is to look if it is an error.
    pub errors_as: Accepted,
    /// The body's media type, or "".
    pub content_type: String,
    /// The program that asks, or "".
    pub user_agent: String,
    /// Whether the client wants to go on in another protocol.
    pub upgrade: bool,
    /// By when it must be answered.
    pub deadline: Instant,
    /// Its writes that are not decided yet.
    pub writes: PendingWrites,
    /// The seat that it has, to be lent while it waits for somebody else.
    pub seat: SeatHandle,
    /// Counts the answers of the client's connections; None if they are not limited.
    pub account: Option<Arc<AnswerAccount>>,
    /// The resource that the path names.
    pub served: Arc<Served>,
    /// The index of the version that the path names.
    pub version: usize,
    /// What the client should be told besides the answer.
    warnings: Mutex<Warnings>,
    /// Path and value of each list and map that was sent without elements.
    sent_empty: Mutex<Vec<(String, Value)>>,
}

/// The number of empty lists and maps that errors can show.
const MAX_SENT_EMPTY: usize = 100;

/// What [`Cx::new`] is made from.
pub(crate) struct Parts {
    pub plane: Arc<Plane>,
    pub user: User,
    pub verb: Verb,
    pub target: Target,
    pub query: Query,
    pub errors_as: Accepted,
    pub content_type: String,
    pub user_agent: String,
    pub upgrade: bool,
    pub deadline: Instant,
    pub writes: PendingWrites,
    pub seat: SeatHandle,
    pub account: Option<Arc<AnswerAccount>>,
}

impl Cx {
    /// For a request about `served`; users of a deprecated version are warned.
    pub(crate) fn new(
        parts: Parts,
        accepted: Accepted,
        served: Arc<Served>,
        version: usize,
    ) -> Self {
        let Parts {
            plane,
            user,
            verb,
            target,
            query,
            errors_as,
            content_type,
            user_agent,
            upgrade,
            deadline,
            writes,
            seat,
            account,
        } = parts;
        let mut warnings = Warnings::default();
        served.version(version).deprecation.iter().for_each(|it| warnings.add(it.clone()));
        let warnings = Mutex::new(warnings);
        Self {
            plane,
            user,
            verb,
            target,
            query,
            accepted,
            errors_as,
            content_type,
            user_agent,
            upgrade,
            deadline,
            writes,
            seat,
            account,
            served,
            version,
            warnings,
            sent_empty: Mutex::default(),
        }
    }

    /// The resource that the path names.
    pub(crate) fn resource(&self) -> &Resource {
        &self.served.resource
    }

    /// Its version that the path names.
    pub(crate) fn version(&self) -> &Version {
        self.served.version(self.version)
    }

    /// `deployments.apps`, for messages.
    pub(crate) fn what(&self) -> GroupResource {
        self.served.resource.group_resource()
    }

    /// The namespace of namespaced resources, "" for others: a namespace is not in itself.
    pub(crate) fn namespace(&self) -> &str {
        if self.resource().namespaced { &self.target.namespace } else { "" }
    }

    /// Where the named object is stored.
    pub(crate) fn key(&self) -> String {
        self.served.key(self.namespace(), &self.target.name)
    }

    /// Waits until everything that was written before this call can be read.
    pub(crate) async fn catch_up(&self) -> Result<(), Status> {
        let caught_up = self.plane.cache.catch_up().await;
        caught_up.map_err(|error| errors::of_store(&self.what(), &self.target.name, &error))
    }

    /// Refuses a read whose answer has about this many bytes, if the client has not read enough of
    /// the answers before it. The answer to a write has to be made.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), Status> {
        if !self.verb.reads() {
            return Ok(());
        }
        flow_control::check_room(self.account.as_deref(), bytes)
    }

    /// The named object as it is now.
    pub(crate) async fn current(&self) -> Result<Arc<Entry>, Status> {
        self.catch_up().await?;
        self.found()
    }

    /// The named object as far as this plane knows, if the client may see it.
    pub(crate) fn found(&self) -> Result<Arc<Entry>, Status> {
        let found = self.served.cache.get(&self.key());
        found
            .filter(|it| !it.uninitialized || self.includes_uninitialized())
            .ok_or_else(|| self.not_found())
    }

    /// Whether the client wants to see, or have at once, what somebody still has to work on.
    pub(crate) fn includes_uninitialized(&self) -> bool {
        self.query.flag("includeUninitialized")
    }

    /// Remembers a list or a map that was sent without elements.
    pub(crate) fn note_empty(&self, path: String, value: Value) {
        let mut sent = self.sent_empty.lock().expect("nothing panics while it takes notes");
        if sent.len() < MAX_SENT_EMPTY {
            sent.push((path, value));
        }
    }

    /// The answer to an object that is not valid. Where it was sent without elements, a list or a map
    /// is shown as such, though it counts as absent.
    pub(crate) fn invalid(&self, name: &str, mut errors: ErrorList) -> Status {
        let sent = self.sent_empty.lock().expect("nothing panics while it takes notes");
        for (path, value) in sent.iter() {
            errors.show_instead_of_null(path, value);
        }
        Status::invalid(&self.resource().group_kind(), name, &errors)
    }

    /// Tells the client something besides the answer, once.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.lock().expect("nothing panics while it warns").add(warning);
    }

    /// What there is to tell.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().expect("nothing panics while it warns");
        std::mem::take(&mut *warnings).into_texts()
    }

    /// There is no such object.
    pub(crate) fn not_found(&self) -> Status {
        // Events are served in two groups, and missing in the one that was asked.
        let mut what = self.what();
        if let Some(group) = &self.version().group {
            what.group.clone_from(group);
        }
        Status::not_found(&what, &self.target.name)
    }
}
