//! The `CustomPod` operator: keeps as many pods as each `CustomPod` requests.
//!
//! ```text
//! CustomPod web, replicas: 3 ──▶ pods web-0, web-1, web-2 ──▶ status: replicas 3, podNames [...]
//! ```
//!
//! [`kinds`] has the custom resources: `CustomPod`, and the same with the name `ImoocPod`.
//! [`controller`] reconciles both. [`add_to`] adds it to a manager, and [`manifests`] are the objects
//! that the cluster needs.
//!
//! ```no_run
//! use custompod_operator::{Options, add_to};
//! use runtime::{Manager, ManagerOptions, client};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ManagerOptions::default();
//! let manager = Manager::new(client::connect(client::infer().await?, &options.clock)?, options);
//! add_to(&manager, &Options::default());
//! manager.run().await?;
//! # Ok(())
//! # }
//! ```

use std::num::NonZeroUsize;

use runtime::Manager;

pub mod kinds;
pub mod controller;

pub use kinds::{CustomPod, CustomPodSpec, ImoocPod, ImoocPodSpec, PodSet, PodSetStatus};

/// The name of the operator: of its lease, and with `-operator` of its service account.
pub const NAME: &str = "custompod";

const DEFAULT_WORKERS: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");

/// The settings of the operator.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The image of the pods
    #[arg(long = "custompod-image", env = "CUSTOMPOD_IMAGE", default_value = "busybox")]
    pub image: String,
    /// The number of objects of a kind that are reconciled at the same time
    #[arg(long = "custompod-workers", env = "CUSTOMPOD_WORKERS", default_value = "2")]
    pub workers: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self { image: "busybox".to_owned(), workers: DEFAULT_WORKERS }
    }
}

/// The YAML documents that the cluster needs: the CRDs, the service account and its permissions.
pub fn manifests() -> Vec<String> {
    let files = [
        include_str!("../crd/custompods.yaml"),
        include_str!("../crd/imoocpods.yaml"),
        include_str!("../config/namespace.yaml"),
        include_str!("../config/rbac.yaml"),
    ];
    files.iter().flat_map(|file| file.split("---\n")).map(str::to_owned).collect()
}

/// Adds the controllers of both kinds.
pub fn add_to(manager: &Manager, options: &Options) {
    manager.add(controller::controller::<CustomPod>(manager, options));
    manager.add(controller::controller::<ImoocPod>(manager, options));
}
