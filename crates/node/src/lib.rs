//! Nodes: clients of the API that own the pods which are bound to them.
//!
//! A node registers a Node object, renews its Lease, and writes the status of its pods. The nodes of
//! this crate are simulated, like those of KWOK: their pods have a status, but no containers run.
//!
//! ```text
//! Node informer ─▶ node_controller   registers nodes, renews leases, writes node status
//! Pod informer  ─▶ pod_controller    pod_lifecycle: status of the pod ─▶ next status, time of the next change
//! Stage objects ─▶ stages            replace or extend both, as in KWOK
//! ```
//!
//! It is visible that a node is simulated: by its label `sampan.dev/simulated=true`, its condition
//! `Simulated`, and its kubelet version. The API server reads that label (or KWOK's annotation
//! `kwok.x-k8s.io/node: fake`) and answers requests for logs of its pods itself.

pub mod simulated_nodes;
mod roles;
mod requests;
mod time;
mod node_view;
mod node_object;
mod node_states;
mod node_controller;
mod pod_view;
mod pod_resources;
mod pod_status_size;
mod node_ledger;
mod pod_resize;
mod commands;
mod pod_waiting;
mod pod_plan;
mod pod_conditions;
mod pod_lifecycle;
mod pod_addresses;
mod pod_admission;
mod pod_annotations;
mod pod_events;
mod pod_files;
mod pod_config;
mod pod_controller;
mod stages;
mod text_reader;
mod template;
mod jq;

pub use node_object::{Capacity, SIMULATED_LABEL};
pub use roles::{Role, roles};
pub use simulated_nodes::{SimulatedNodes, SimulatedNodesOptions};
