//! The operator runtime: custom resources as Rust types, controllers with shared caches, a manager
//! that runs them, and the functions that a reconcile needs.
//!
//! ```text
//! informers ─▶ Predicate ─▶ Mapper ─▶ WorkQueue ─▶ control loop ─▶ your reconcile
//!     ▲        (filter)     (key)      (a key once)  (N workers)        │ writes
//!     └──────────────── observed at once ◀── Manager::client ◀──────────┘
//! ```
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! use runtime::{Action, Controller, Failure, Lister, Manager, ManagerOptions, Request};
//! use std::sync::Arc;
//!
//! struct Context {
//!     maps: Lister<ConfigMap>,
//! }
//!
//! async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
//!     let Some(map) = cx.maps.get_key(&request)? else { return Ok(Action::Done) };
//!     println!("{request} has {} entries", map.data.map_or(0, |data| data.len()));
//!     Ok(Action::Done)
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let options = ManagerOptions::default();
//! let client = runtime::client::connect(runtime::client::infer().await?, &options.clock)?;
//! let manager = Manager::new(client, options);
//! let context = Context { maps: manager.lister() };
//! manager.add(Controller::for_::<ConfigMap>().owns::<Pod>().reconcile(reconcile, context));
//! manager.run().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It works with any Kubernetes API server, over the network or in the same process.

/// The guide for authors of operators, whose examples are compiled with the others.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/operators.md")]
struct OperatorGuide;

/// The guide for tests of operators, whose example is run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-operators.md")]
struct TestingGuide;

pub mod reconcile;
pub mod predicate;
pub mod event_source;
pub mod reconcile_history;
mod changed_fields;
mod namespace_limit;
pub mod dynamic_kind;
pub mod controller;
mod control_loop;
pub mod manager;
pub mod leader_election;
pub mod fence;
pub mod managed_client;
mod access_record;
pub mod api_service;
pub mod identity;
mod metrics;
pub mod health;
mod endpoint;
mod schema_patch;
mod int_or_string;
pub mod macro_support;
pub mod crd;
pub mod versions;
pub mod informer_ext;
pub mod lister_ext;
pub mod client_ext;
pub mod not_found_ext;
pub mod apply;
pub mod writes;
pub mod conditions;
pub mod finalizer;
pub mod owner;
pub mod recorder;
pub mod webhook;
pub mod prelude;

#[doc(inline)]
pub use client;
pub use derive::{Versions, resource, schema};
#[doc(inline)]
pub use informer;
#[doc(inline)]
pub use informer::{Lister, ObjectKey, Selection, SharedInformer};
#[doc(inline)]
pub use keel;
#[doc(inline)]
pub use keel::{Clock, Tasks};
pub use kube_client;
pub use kube_client::{Api, Client};
pub use kube_core;
pub use prometheus_client;

pub use api_service::ApiService;
pub use client_ext::ClientExt;
pub use controller::{Controller, ControllerBuilder};
pub use dynamic_kind::DynamicKind;
pub use event_source::{CONTROLLER_INDEX, Mapper};
pub use fence::{Fenced, WriteAbandoned};
pub use identity::{Connect, Identity};
pub use informer_ext::InformerExt;
pub use int_or_string::IntOrString;
pub use leader_election::{InvalidLeaderElection, LeaderElection};
pub use lister_ext::ListerExt;
pub use manager::{BackgroundManager, Manager, ManagerError, ManagerOptions};
pub use not_found_ext::NotFoundExt;
pub use predicate::Predicate;
pub use reconcile::{Action, Failure, Request};
pub use writes::{create_or_update, patch_status};
