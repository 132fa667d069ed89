//! The kinds of `storage.k8s.io`.

pub mod storage_class;
pub mod volume_attributes_class;
pub mod volume_attachment;
pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
mod driver;

pub(crate) use driver::{declared_driver_name, validate_driver_name};

/// The group's name.
const GROUP: &str = "storage.k8s.io";
