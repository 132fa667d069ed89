//! A Kubernetes API server in the process of a test.
//!
//! [`TestEnv`] starts a plane in memory, moves its clock, and sends requests to it. No port is
//! opened and no file is written unless the test asks for it, so each test has a plane of its own.
//!
//! ```
//! use std::time::Duration;
//!
//! use machinery::json;
//! use testenv::TestEnv;
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
//!
//! let env = TestEnv::start().await;
//! env.create(LEASES, &json!({"metadata": {"name": "a"}})).await;
//! env.advance(Duration::from_mins(1));
//! let lease = env.create(LEASES, &json!({"metadata": {"name": "b"}})).await;
//! assert_eq!(lease["metadata"]["creationTimestamp"], "2024-01-01T00:01:00Z");
//!
//! let (code, status) = env.unauthenticated().get(LEASES).await;
//! assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
//! env.stop().await.unwrap();
//! # });
//! ```
//!
//! A function of this crate panics when a request that must succeed fails, and when something that
//! should happen at once has not happened after a minute: the test fails there.

#![allow(clippy::panic, reason = "a panic fails the test, and its message says why")]

pub mod media_type;

mod builder;
mod client;
mod env;
mod install;
mod kubeconfig;
mod response;
mod watch;

pub use builder::TestEnvBuilder;
pub use client::Client;
pub use env::{START, TestEnv};
pub use response::Response;
pub use watch::Watch;
