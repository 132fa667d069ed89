//! The API server. The modules are listed in the order in which a request passes them, and a module
//! uses only those after it; `xtask/tests/layers.rs` checks this.

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
mod storage;
mod cache;
pub mod outbound;
pub mod config;
mod flow_control;
pub mod auth;
mod metrics;
pub mod http;
pub mod request;
pub mod certificates;

pub use config::{Config, StoreConfig, Timeouts};
pub use in_process::InProcessClient;
pub use server::Server;
