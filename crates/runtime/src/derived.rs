//! The crates that the expansions of `#[resource]`, `#[schema]` and `#[derive(Versions)]` refer
//! to. Nobody need name this module; it spares an operator's manifest six lines.

pub use {k8s_openapi, kube_core, kube_derive, schemars, serde, serde_json};
