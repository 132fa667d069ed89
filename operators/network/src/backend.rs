//! [`Backend`]: where networks exist.
//!
//! A backend compares what it has of one Network with what is desired, and names the changes that are
//! missing. The controller makes them and asks again, until there is nothing left to change. Each
//! change is small and idempotent, so that an operator that ends between two of them loses nothing.
//!
//! ```text
//! plan ─▶ [create the network] ─▶ plan ─▶ [tag it, create its subnet] ─▶ plan ─▶ []
//! ```
//!
//! Everything that a backend makes carries a [`Mark`], by which it is found again. A backend touches
//! nothing without a mark of its cluster.

mod desired;
pub mod dry_run;
#[cfg(target_os = "linux")]
pub mod linux;
mod mark;
pub mod neutron;

use std::collections::BTreeMap;
use std::fmt::Display;

pub use desired::{Desired, InvalidSpec};
pub use mark::{ClusterName, InvalidClusterName, Mark};

use runtime::Request;

/// See the [module documentation](self).
pub trait Backend: Send + Sync + 'static {
    /// One step towards the desired state. Its text is for an Event, such as `created subnet 7f2a`.
    type Change: Display + Send + Sync;

    /// The difference between the desired state and the actual one. Without a desired state, nothing
    /// with this mark should exist. `known` are the objects that the last plan without changes found.
    fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
        known: &Ids,
    ) -> impl Future<Output = Result<Plan<Self::Change>, BackendError>> + Send;

    /// Makes one change of a plan.
    fn make(
        &self,
        mark: &Mark,
        change: &Self::Change,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// The Networks of which something exists. Called at the beginning of each resync: a backend may
    /// use what it has listed for the plans that follow.
    fn keys(
        &self,
        cluster: &ClusterName,
    ) -> impl Future<Output = Result<Vec<Request>, BackendError>> + Send;

    /// Whether what was made outlasts this process. If not, a network that is missing after a restart
    /// has not been deleted by somebody else.
    fn is_durable(&self) -> bool {
        true
    }
}

/// The result of [`Backend::plan`].
#[derive(Debug)]
pub struct Plan<C> {
    /// What differs from the desired state. The changes are made in this order.
    pub changes: Vec<C>,
    /// The objects of the backend, by their part: the `backendIds` of the status.
    pub ids: Ids,
}

/// The identifiers of a backend's objects by their part, such as `network` and `subnet`.
pub type Ids = BTreeMap<String, String>;

/// The reason why a backend has not done what it should.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The object was changed since the plan was made: plan again.
    #[error("changed meanwhile: {0}")]
    Conflict(String),
    /// A repetition would fail in the same way until somebody changes something.
    #[error("refused: {0}")]
    Refused(String),
    /// Something that the operator has not made is in the way. It is not touched.
    #[error("{0}, which this operator has not made")]
    Foreign(String),
    /// Something uses the network, such as a port, and stays until somebody removes it.
    #[error("in use: {0}")]
    InUse(String),
    /// Try again later.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

impl BackendError {
    /// The reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::Refused(_) => "Refused",
            Self::Foreign(_) => "Foreign",
            Self::InUse(_) => "InUse",
            Self::Unavailable(_) => "BackendUnavailable",
        }
    }
}
