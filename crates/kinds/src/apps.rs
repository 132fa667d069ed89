//! The kinds of the group `apps`: those that keep pods running.

pub mod deployment;
pub mod replica_set;
pub mod stateful_set;
pub mod daemon_set;
pub mod controller_revision;
mod rollout;
