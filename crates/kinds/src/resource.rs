//! The kinds of `resource.k8s.io`: devices and their allocation to pods.

mod device_claim;
pub mod admin_access;
pub mod device_class;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;

/// The group's name.
const GROUP: &str = "resource.k8s.io";
