//! [`Workload`]: a workload, with the fields of its spec and its status that a controller reads.

use serde::Deserialize;

use crate::adoption::HasMetadata;
use crate::metadata::Metadata;

/// See the [module documentation](self).
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Workload<Spec, Status> {
    /// The metadata.
    pub metadata: Metadata,
    /// The spec.
    pub spec: Spec,
    /// The status; that of a new workload is empty.
    #[serde(default)]
    pub status: Status,
}

impl<Spec, Status> HasMetadata for Workload<Spec, Status> {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}
