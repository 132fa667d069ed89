//! The kinds of the core group.

mod go_struct;
mod unified_diff;
pub mod namespace;
pub mod config_map;
pub mod secret;
pub mod service_account;
pub mod service;
pub mod pod;
pub mod node;
pub mod event;
