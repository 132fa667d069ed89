//! The kinds of `flowcontrol.apiserver.k8s.io`.

pub mod flow_schema;
mod mandatory;
pub mod priority_level_configuration;

/// The group's name.
const GROUP: &str = "flowcontrol.apiserver.k8s.io";
