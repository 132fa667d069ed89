//! [`DryRun`]: a backend in memory that logs its changes. It begins empty in each process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Backend, BackendError, ClusterName, Desired, Ids, Mark, Plan};
use runtime::Request;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct DryRun(Mutex<BTreeMap<String, Desired>>);

/// A change of a [`DryRun`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The network is missing.
    Create(Desired),
    /// The network differs from the desired one.
    Update {
        /// The network as it is.
        from: Desired,
        /// The network as it should be.
        to: Desired,
    },
    /// The network should not exist.
    Delete,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses =
            |network: &Desired| format!("{} with gateway {}", network.cidr(), network.gateway());
        match self {
            Self::Create(desired) => write!(f, "created network {}", addresses(desired)),
            Self::Update { from, to } => {
                write!(f, "changed network {} to {}", addresses(from), addresses(to))
            }
            Self::Delete => write!(f, "deleted network"),
        }
    }
}

impl DryRun {
    /// The networks by their marks, for a test that changes them behind the operator's back.
    pub fn networks(&self) -> MutexGuard<'_, BTreeMap<String, Desired>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for DryRun {
    type Change = Change;

    async fn plan(
        &self,
        mark: &Mark,
        desired: Option<&Desired>,
        _known: &Ids,
    ) -> Result<Plan<Change>, BackendError> {
        let actual = self.networks().get(mark.as_str()).copied();
        let change = match (actual, desired) {
            (None, Some(desired)) => Some(Change::Create(*desired)),
            (Some(from), Some(to)) if from != *to => Some(Change::Update { from, to: *to }),
            (Some(_), None) => Some(Change::Delete),
            (Some(_), Some(_)) | (None, None) => None,
        };
        let ids = actual.map(|_| ("network".to_owned(), mark.to_string()));
        Ok(Plan { changes: Vec::from_iter(change), ids: ids.into_iter().collect() })
    }

    async fn make(&self, mark: &Mark, change: &Change) -> Result<(), BackendError> {
        match change {
            Change::Create(desired) | Change::Update { to: desired, .. } => {
                self.networks().insert(mark.to_string(), *desired);
            }
            Change::Delete => {
                self.networks().remove(mark.as_str());
            }
        }
        tracing::info!(network = %mark.key(), "dry run: {change}");
        Ok(())
    }

    async fn keys(&self, cluster: &ClusterName) -> Result<Vec<Request>, BackendError> {
        Ok(self.networks().keys().filter_map(|mark| cluster.key_of(mark)).collect())
    }

    fn is_durable(&self) -> bool {
        false
    }
}
