//! The paths that do not belong to API resources: discovery, health, metrics, OpenAPI, version,
//! dumps of flow control.

pub(crate) mod discovery;
pub(crate) mod flow_control_dump;
pub(crate) mod health;
pub(crate) mod issuer_discovery;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod version;
