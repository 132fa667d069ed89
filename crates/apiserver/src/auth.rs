//! Authentication, impersonation, authorization and audit of requests.

pub mod authentication;
pub mod impersonation;
pub mod authorization;
pub(crate) mod audit;
pub(crate) mod metrics;
