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
use machinery::{Object, Status};

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
}

/// Changes the object, or refuses it before anybody looks at it closely.
pub(crate) fn mutate(cx: &Cx, object: &mut Object, operation: Operation) -> Result<(), Status> {
    if operation == Operation::Create {
        namespace_lifecycle::create(cx, object)?;
        pod_defaults::create(cx, object)?;
    }
    Ok(())
}

/// Whether something may be made in the namespace of the request.
pub(crate) fn judge_namespace(cx: &Cx, object: &Object) -> Result<(), Status> {
    namespace_lifecycle::create(cx, object)
}

/// Whether an object may be deleted.
pub(crate) fn judge_delete(cx: &Cx) -> Result<(), Status> {
    namespace_lifecycle::delete(cx)
}
