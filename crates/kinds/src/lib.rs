//! What the server knows of each kind: one [`Resource`] per kind, and one file per built-in kind.

#![allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the functions that make the rows of tables share one signature, in which Now may grow"
)]
#![cfg_attr(
    test,
    allow(clippy::needless_pass_by_value, reason = "json!({…}) reads best without a reference")
)]

pub mod resource;
pub mod types;
pub mod protobuf;
pub mod strategic;
pub mod apply;
pub mod openapi;
pub mod table;
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
pub mod dynamic_resource;
pub mod admissionregistration;
pub mod apiregistration;
pub mod certificates;
pub mod flowcontrol;
mod columns;
mod fields;
mod rules;
mod address;
mod quantities;
mod workload;
#[cfg(test)]
mod testing;

pub use resource::{Behavior, Resource};
