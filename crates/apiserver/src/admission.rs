//! Admission: what else is changed in or held against an object before it is stored, in
//! Kubernetes' order. Mutating plugins run before validation, judging ones after it; webhooks and
//! policies will stand at the end of each half.

mod namespace_lifecycle;
mod pod_defaults;
mod service_address;

pub(crate) use namespace_lifecycle::IMMORTAL;
pub use service_address::BadCidr;
pub(crate) use service_address::{Allocations, Claim};

use crate::context::Cx;
use crate::options::DeleteOptions;
use machinery::{Object, Status};

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
}

/// What somebody is about to do, as far as admission looks at it. Objects are in the hub version.
#[allow(dead_code, reason = "webhooks and policies look at all of it")]
pub(crate) struct Attempt<'a> {
    /// The request.
    pub cx: &'a Cx,
    /// What it does.
    pub operation: Operation,
    /// Of the object; "" where it will be generated.
    pub name: String,
    /// The object's; the request may be about several.
    pub namespace: &'a str,
    /// The object before; None if it is new.
    pub old: Option<&'a Object>,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// With what a deletion was asked for.
    pub deletion: Option<&'a DeleteOptions>,
}

impl<'a> Attempt<'a> {
    /// To create `object`.
    pub(crate) fn create(cx: &'a Cx, object: &Object, dry_run: bool) -> Self {
        let (name, namespace) = (object.name().to_owned(), cx.namespace());
        let operation = Operation::Create;
        Self { cx, operation, name, namespace, old: None, dry_run, deletion: None }
    }

    /// To change `old`.
    pub(crate) fn update(cx: &'a Cx, old: &'a Object, dry_run: bool) -> Self {
        let (name, namespace) = (old.name().to_owned(), cx.namespace());
        let operation = Operation::Update;
        Self { cx, operation, name, namespace, old: Some(old), dry_run, deletion: None }
    }

    /// To delete `old`.
    pub(crate) fn delete(cx: &'a Cx, old: &'a Object, options: &'a DeleteOptions) -> Self {
        Self {
            cx,
            operation: Operation::Delete,
            name: old.name().to_owned(),
            namespace: old.namespace(),
            old: Some(old),
            dry_run: options.dry_run,
            deletion: Some(options),
        }
    }
}

/// Changes the object, or refuses it before anybody looks at it closely.
pub(crate) async fn mutate(attempt: &Attempt<'_>, object: &mut Object) -> Result<(), Status> {
    let cx = attempt.cx;
    if attempt.operation == Operation::Create {
        namespace_lifecycle::create(cx, object)?;
        pod_defaults::create(cx, object)?;
    }
    Ok(())
}

/// Judges what is about to be stored, or, if `object` is None, removed.
pub(crate) async fn judge(attempt: &Attempt<'_>, object: Option<&Object>) -> Result<(), Status> {
    if object.is_none() {
        namespace_lifecycle::delete(attempt)?;
    }
    Ok(())
}

/// Whether something may be made in the namespace of the request.
pub(crate) fn judge_namespace(cx: &Cx, object: &Object) -> Result<(), Status> {
    namespace_lifecycle::create(cx, object)
}
