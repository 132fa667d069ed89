//! The API server: one request, top to bottom, in the order of the modules below.

pub mod server;
pub mod config;
pub mod certificates;
pub mod listen;
mod chain;
mod mux;
mod routes;
mod endpoints;
pub mod admission;
mod registry;
mod extensions;
mod plane;
mod loopback;
pub mod in_process;
mod handler;
pub mod outbound;
mod cache;
mod flow_control;
pub mod auth;
pub mod http;
pub mod request;
mod metrics;
mod errors;

pub use config::{Config, StoreConfig, Timeouts};
pub use in_process::InProcessClient;
pub use server::Server;
