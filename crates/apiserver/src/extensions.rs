//! Extensions of the API by users: custom resources, and aggregated API servers.

pub(crate) mod crd;
pub(crate) mod aggregation;
