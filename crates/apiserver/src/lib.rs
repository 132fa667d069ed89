//! The API server. The modules are listed from top to bottom: a module uses only those after it,
//! which `xtask/tests/layers.rs` checks. `ARCHITECTURE.md` follows a request through them.

pub mod server;
pub mod listen;
mod chain;
mod routes;
mod endpoints;
mod plane;
mod extensions;
pub mod admission;
mod registry;
pub mod in_process;
mod node_authorizer;
mod rbac;
mod storage;
mod cache;
pub mod config;
pub mod encryption;
pub mod audit;
mod flow_control;
pub mod auth;
pub mod outbound;
mod metrics;
pub mod http;
pub mod request;
pub mod certificates;
mod config_files;

pub use auth::authentication::anonymous::Anonymous;
pub use config::{AuthorizerConfig, Config, StoreConfig, Timeouts};
pub use flow_control::Fairness;
pub use in_process::InProcessClient;
pub use server::Server;
