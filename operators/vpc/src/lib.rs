//! The `Vpc` operator: splits the block of each `Vpc` into subnets, each a `Network`.
//!
//! ```text
//! Vpc shop, cidrblock: 10.0.0.0/16, subnetnum: 3
//!   ├─▶ Network shop-0   10.0.0.0/18     gateway 10.0.0.1
//!   ├─▶ Network shop-1   10.0.64.0/18    gateway 10.0.64.1
//!   └─▶ Network shop-2   10.0.128.0/18   gateway 10.0.128.1
//! ```
//!
//! [`allocation`] decides which subnet has which addresses, and [`controller`] makes the Networks so.
//! [`add_to`] adds the controller to a manager, and [`manifests`] are the objects that the cluster
//! needs, besides the CRD of Network, which belongs to the operator of the Networks.

use std::num::NonZeroUsize;

use runtime::Manager;

pub mod cidr;
pub mod allocation;
pub mod kinds;
mod occupied;
mod mappers;
pub mod controller;

pub use cidr::Cidr;
pub use kinds::{Network, NetworkSpec, NetworkStatus, Vpc, VpcSpec, VpcStatus};

/// The name of the operator: of its lease, and with `-operator` of its service account.
pub const NAME: &str = "vpc";

const DEFAULT_WORKERS: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");

/// The settings of the operator.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The number of Vpcs that are reconciled at the same time
    #[arg(long = "vpc-workers", env = "VPC_WORKERS", default_value = "2")]
    pub workers: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self { workers: DEFAULT_WORKERS }
    }
}

/// The YAML documents that the cluster needs: the CRD, the service account and its permissions.
pub fn manifests() -> Vec<String> {
    let files = [
        include_str!("../crd/vpcs.yaml"),
        include_str!("../config/namespace.yaml"),
        include_str!("../config/rbac.yaml"),
    ];
    files.iter().flat_map(|file| file.split("---\n")).map(str::to_owned).collect()
}

/// Adds the controller.
pub fn add_to(manager: &Manager, options: &Options) {
    manager.add(controller::controller(manager, options));
}
