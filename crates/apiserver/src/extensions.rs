//! What users add to the API: custom resources, and servers that this one aggregates.

pub(crate) mod crd;
pub(crate) mod aggregation;
