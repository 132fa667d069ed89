//! The kinds of the core group.

mod volume_sources;
pub mod namespace;
pub mod binding;
pub mod component_status;
pub mod config_map;
pub mod secret;
pub mod service_account;
pub mod service;
pub mod pod;
pub mod pod_template;
pub mod replication_controller;
pub mod node;
pub mod event;
pub mod endpoints;
pub mod limit_range;
pub mod resource_quota;
pub mod persistent_volume;
pub mod persistent_volume_claim;
