//! The verbs, a file for each.

pub(crate) mod get;
pub(crate) mod raw;
pub(crate) mod api_resources;
pub(crate) mod version;
pub(crate) mod explain;
pub(crate) mod delete;
pub(crate) mod patch;
pub(crate) mod label;
pub(crate) mod scale;
pub(crate) mod apply;
pub(crate) mod create;
pub(crate) mod wait;
pub(crate) mod set;
pub(crate) mod rollout;
pub(crate) mod logs;
pub(crate) mod describe;
pub(crate) mod config;
pub(crate) mod diff;
pub(crate) mod edit;
