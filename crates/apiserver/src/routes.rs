//! The paths beside the resources: what there is, whether it is well, and which version it is.

pub(crate) mod discovery;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod version;
