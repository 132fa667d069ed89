//! The kinds of `networking.k8s.io`.

pub mod ingress;
pub mod ingress_class;
pub mod network_policy;
pub mod ip_address;
pub mod service_cidr;

/// The group's name.
const GROUP: &str = "networking.k8s.io";
