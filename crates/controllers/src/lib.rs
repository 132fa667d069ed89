//! The built-in controllers: what kube-controller-manager and kube-scheduler are to Kubernetes.
//!
//! Each controller is a client of the API like any other. It reads from caches that all controllers
//! share, and writes as its own service account, which has the rights of its row in the
//! [table](controller_table).
//!
//! ```text
//! table ─▶ Selection (--controllers) ─▶ ControllerManager ─▶ ControllerContext of each controller
//!                                            │ one Manager: shared informers, metrics, health
//! ```

pub mod controller_table;
pub mod controller_manager;
mod controller_context;
pub mod selection;
mod api_requests;
mod time;
mod metadata;
mod pod_view;
mod pod_control;
mod adoption;
mod replica_set;
mod job;
mod cron_job;

pub use controller_manager::{ControllerManager, ControllerManagerOptions};
pub use controller_table::{ControllerDescriptor, Role, roles};
pub use selection::{Selection, UnknownController};
