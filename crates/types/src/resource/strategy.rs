//! [`Strategy`]: the functions and facts of a kind that are not in its schema.

use machinery::{ErrorList, Object};

/// Validates an object that replaces `old`: (new, old, the request's `apiVersion`).
pub type ValidateIn = fn(&Object, Option<&Object>, &str, &mut ErrorList);

/// What a kind does differently from others: pure functions, all on objects of the storage version.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact about the kind, not a state")]
pub struct Strategy {
    /// Sets the defaults of unset fields, before admission.
    pub defaults: fn(&mut Object),
    /// Resets the fields that a creation may not set (status), and sets those of the server.
    pub prepare_create: fn(&mut Object),
    /// The same for an update of the main resource, with the stored state.
    pub prepare_update: fn(&mut Object, &Object),
    /// The same for an update of `/status`.
    pub prepare_status: fn(&mut Object, &Object),
    /// Sets the times of changes of the status, after `prepare_status` or the preparation of another
    /// subresource: (new, old, current time).
    pub set_status_times: fn(&mut Object, &Object, &str),
    /// Validates a new object; metadata is validated elsewhere.
    pub validate: fn(&Object, &mut ErrorList),
    /// Validates a change. It validates the whole new object too, unless the kind does not re-check
    /// unchanged parts.
    pub validate_update: fn(&Object, &Object, &mut ErrorList),
    /// The same for a change of `/status`.
    pub validate_status: fn(&Object, &Object, &mut ErrorList),
    /// For kinds whose rules depend on the version of the request: replaces `validate` and
    /// `validate_update`.
    pub validate_in: Option<ValidateIn>,
    /// Validates `metadata.name`, and returns Kubernetes' messages.
    pub validate_name: fn(&str) -> Vec<String>,
    /// Whether `metadata.generation` counts changes of anything but metadata and status.
    pub generation: bool,
    /// Whether an update without a `resourceVersion` overwrites the stored object.
    pub unconditional_update: bool,
    /// A write needs much CPU time even if the object is small.
    pub expensive_writes: bool,
    /// Whether an update of an object that does not exist creates it.
    pub create_on_update: bool,
    /// The grace period of a deletion in seconds, computed from the stored object; None for kinds
    /// that are deleted at once.
    pub grace_period: Option<fn(&Object) -> i64>,
    /// Whether DELETE answers with the object rather than with a Status.
    pub returns_deleted: bool,
    /// For kinds whose deletion involves more than finalizers: None for nearly all.
    pub deletion: Option<&'static DeletionHooks>,
    /// Converts an object between the storage version and another one: (object, from, to).
    pub convert: Option<fn(&mut Object, &str, &str)>,
    /// Warnings for the user about an object that is accepted.
    pub warnings: fn(&Object) -> Vec<String>,
    /// For kinds that warn only if the spec changes: replaces `warnings` in updates. (new, old)
    pub update_warnings: Option<fn(&Object, &Object) -> Vec<String>>,
    /// For kinds whose objects are not sorted by name in the Table of a list: the number by which they
    /// are.
    pub row_order: Option<fn(&Object) -> i64>,
    /// What happens to dependents if an object is deleted without a propagation policy.
    pub garbage_collection: GarbageCollectionPolicy,
    /// The error about a label of a field selector that is not selectable.
    pub unknown_label: fn(&str) -> String,
    /// The subresources besides `/status` and `/scale`.
    pub subresources: &'static [Subresource],
    /// The storage version that discovery announces, where kube-apiserver's is not ours.
    pub announced_storage_version: Option<&'static str>,
    /// For kinds that are not stored: which of them it is.
    pub unstored: Option<UnstoredKind>,
}

/// A kind that is not stored: the response to its creation is the object with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnstoredKind {
    /// Authenticates the token in it.
    TokenReview,
    /// Returns the user of the request.
    SelfSubjectReview,
    /// Authorizes any user.
    SubjectAccessReview,
    /// Authorizes any user in one namespace.
    LocalSubjectAccessReview,
    /// Authorizes the user of the request.
    SelfSubjectAccessReview,
    /// Lists the permissions of the user of the request.
    SelfSubjectRulesReview,
    /// Binds a pod to a node.
    Binding,
    /// Is read, not created.
    ComponentStatus,
}

impl UnstoredKind {
    /// The verbs of discovery.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::ComponentStatus => &["get", "list"],
            _ => &["create"],
        }
    }
}

/// What happens to an object's dependents if it is deleted without a propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GarbageCollectionPolicy {
    /// The garbage collector deletes them after it.
    DeleteDependents,
    /// They are orphaned, and the client gets the warning, if there is one.
    OrphanDependents(Option<&'static str>),
    /// The garbage collector ignores them, even with a policy.
    Unsupported,
}

/// A subresource, such as `/finalize`, `/binding`, `/eviction`.
#[derive(Debug)]
pub struct Subresource {
    /// The last part of the path.
    pub name: &'static str,
    /// The group of the kind in requests and responses; empty for that of the resource.
    pub group: &'static str,
    /// Its version; empty for that of the resource.
    pub version: &'static str,
    /// The kind itself.
    pub kind: &'static str,
    /// What it does.
    pub action: Action,
}

/// The verbs of a subresource that is read and changed like the object.
pub const READ_AND_WRITE: &[&str] = &["get", "patch", "update"];

/// What a request to a [`Subresource`] does with its body.
#[derive(Debug)]
pub enum Action {
    /// It is read, replaced and patched like the object, but changes only what `prepare` leaves of
    /// the change.
    Replace {
        /// Restores the fields of the old object that cannot be changed here.
        prepare: fn(&mut Object, &Object),
        /// Validates the change.
        validate: fn(&Object, &Object, &mut ErrorList),
        /// The verbs of discovery.
        verbs: &'static [&'static str],
    },
    /// It is posted, and changes the stored object: (stored, body, now).
    Post(fn(&mut Object, &Object, &str) -> Result<(), machinery::Status>),
    /// It is posted, and deletes the object with the `deleteOptions` in it.
    Evict,
    /// It is posted, and the response has a token for the object, which is a service account.
    Token,
    /// It is a connection to the object, with these verbs.
    Connect(&'static [&'static str]),
}

impl Action {
    /// The verbs of discovery.
    pub fn verbs(&self) -> &'static [&'static str] {
        match self {
            Self::Replace { verbs, .. } | Self::Connect(verbs) => verbs,
            Self::Post(_) | Self::Evict | Self::Token => &["create"],
        }
    }
}

/// The hooks of a kind whose deletion first deletes other objects: namespaces and CRDs.
#[derive(Debug)]
pub struct DeletionHooks {
    /// Marks an object whose deletion begins at the given time.
    pub begin: fn(&mut Object, &str),
    /// Whether an object that is being deleted must still be kept, for other reasons than
    /// finalizers.
    pub held: fn(&Object) -> bool,
}

impl Strategy {
    /// The strategy of a kind that differs from others in nothing.
    pub const DEFAULT: Strategy = Strategy {
        defaults: |_| {},
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        prepare_status: keep_all_but_status,
        set_status_times: |_, _, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        validate_in: None,
        validate_name: machinery::names::dns1123_subdomain,
        generation: false,
        unconditional_update: true,
        expensive_writes: false,
        create_on_update: false,
        grace_period: None,
        returns_deleted: false,
        deletion: None,
        convert: None,
        warnings: |_| Vec::new(),
        update_warnings: None,
        row_order: None,
        garbage_collection: GarbageCollectionPolicy::DeleteDependents,
        unknown_label: |label| format!("field label not supported: {label}"),
        subresources: &[],
        announced_storage_version: None,
        unstored: None,
    };
}

/// Replaces the status, which a creator may not set, with the one that Go writes for an empty
/// status.
pub fn drop_status(object: &mut Object) {
    let zero = crate::of_kind(object.api_version(), object.kind())
        .and_then(|kind| kind.field("status"))
        .map(crate::normalize::zero);
    match zero {
        Some(zero) => object.map_mut().insert("status".to_owned(), zero),
        None => object.map_mut().remove("status"),
    };
}

/// Restores the stored status, which only an update of `/status` can change.
pub fn keep_status(new: &mut Object, old: &Object) {
    machinery::fields::keep(new, old, "status");
}

/// Restores everything except metadata and status, which an update of `/status` cannot change.
pub fn keep_all_but_status(new: &mut Object, old: &Object) {
    let kept: Vec<String> = new.map().keys().chain(old.map().keys()).cloned().collect();
    for key in kept {
        if matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            continue;
        }
        match old.map().get(&key) {
            Some(value) => new.map_mut().insert(key, value.clone()),
            None => new.map_mut().remove(&key),
        };
    }
}
