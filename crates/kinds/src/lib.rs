//! The built-in kinds: a module per API group, a file per kind, and [`table`] with all of them.

#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the functions that compute the cells of tables share one signature, in which Now may grow"
)]
#![cfg_attr(
    test,
    allow(clippy::needless_pass_by_value, reason = "json!({…}) reads best without a reference")
)]

pub mod table;
pub mod runtime_config;
pub mod core;
pub mod apps;
pub mod batch;
pub mod coordination;
pub mod events;
pub mod authentication;
pub mod authorization;
pub mod apiextensions;
pub mod autoscaling;
pub mod policy;
pub mod networking;
pub mod discovery;
pub mod rbac;
pub mod storage;
pub mod scheduling;
pub mod node;
pub mod resource;
pub mod admissionregistration;
pub mod apiregistration;
pub mod certificates;
pub mod flowcontrol;
pub mod storagemigration;
mod validation;
