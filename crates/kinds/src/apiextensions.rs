//! `apiextensions.k8s.io`: CRDs, and the custom resources that they define.
//!
//! A CRD is validated like any other object ([`crd`]), its names are accepted ([`next_status`]),
//! and it becomes a [`Resource`](types::Resource) at run time ([`resource`]).

pub mod crd;
mod validate;
mod versions;
mod schemas;
mod conversion;
mod v1beta1;
mod approval;
mod conditions;
mod names;
mod termination;
pub mod custom;

pub use conditions::{is_established, is_terminating};
pub use crd::{CLEANUP_FINALIZER, begin_deletion};
pub use custom::{resource, resource_with};
pub use names::next_status;
pub use termination::Termination;
pub use validate::validate_in;

/// The group of CRDs.
pub const GROUP: &str = "apiextensions.k8s.io";
