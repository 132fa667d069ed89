//! The API server: one request, top to bottom, in the order of the modules below.

pub mod server;
pub mod config;
pub mod certificates;
pub mod listen;
pub mod door;
pub mod body;
mod plane;
pub mod request;
mod context;
mod warnings;
mod chain;
pub mod authentication;
pub mod authorization;
pub mod impersonation;
mod flow_control;
mod audit;
mod mux;
mod routes;
mod endpoints;
mod negotiation;
mod options;
mod decode;
pub mod admission;
mod ownership;
mod registry;
mod validation;
mod answer;
mod protobuf;
mod compression;
mod table;
mod catalog;
mod watch_cache;
mod crd;
mod errors;
mod metrics;
mod own_client;
#[allow(dead_code, reason = "webhooks, policies and aggregation use all of it")]
mod derived;
#[allow(dead_code, reason = "webhooks, policies and aggregation use all of it")]
mod outbound;
pub mod bootstrap;

pub use config::{Config, StoreConfig, Timeouts};
pub use door::Door;
pub use server::Server;
