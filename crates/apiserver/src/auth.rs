//! Authentication, impersonation and authorization of requests.

pub mod authentication;
pub mod impersonation;
pub mod authorization;
pub(crate) mod metrics;
mod answer_cache;
