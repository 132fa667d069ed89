//! Authentication, impersonation and authorization of requests.

pub mod authentication;
pub mod impersonation;
pub mod authorization;
pub(crate) mod metrics;
pub(crate) mod attempt_metrics;
mod answer_cache;
