//! The kinds of `policy`.

pub mod pod_disruption_budget;
pub mod eviction;
