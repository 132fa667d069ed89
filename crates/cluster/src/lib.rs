//! A whole plane in one process: the API server, the built-in controllers, and simulated nodes.
//!
//! ```text
//!            ┌────────────── Cluster ──────────────┐
//! clients ─▶ │ Server ◀── ControllerManager         │
//!            │        ◀── SimulatedNodes            │   each an in-process client with a user
//!            └──────────────────────────────────────┘   and rights of its own
//! ```
//!
//! ```
//! use cluster::{Cluster, ClusterConfig};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let cluster = Cluster::start(ClusterConfig { nodes: 3, ..ClusterConfig::default() }).await?;
//! let client = cluster.server().in_process_client(); // may do everything
//! # drop(client);
//! cluster.stop().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod cluster;
mod connect;
mod server_functions;

pub use cluster::{Cluster, ClusterConfig, roles};
pub use connect::{connect, loopback};
pub use controllers::{BadSelection, Selection};
pub use server_functions::{serve_metrics, signers};
