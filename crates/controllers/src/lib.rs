//! The built-in controllers: what kube-controller-manager and kube-scheduler are to Kubernetes.
//!
//! Each controller is a client of the API like any other. It reads from caches that all controllers
//! share, and writes as a service account, which has the rights of its row in the
//! [table](controller_table).
//!
//! ```text
//! table ─▶ Selection (--controllers) ─▶ ControllerManager ─▶ ControllerContext of each controller
//!                                            │ one Manager: shared informers, metrics, health
//! ```

pub mod controller_table;
pub mod controller_manager;
mod controller_context;
pub mod signers;
pub mod selection;
mod api_requests;
mod time;
mod exposition;
mod metadata;
mod pod_view;
mod slow_start;
mod minimum_intervals;
mod pod_control;
mod adoption;
mod workload;
mod template_hash;
mod replica_set;
mod deployment;
mod resource_discovery;
mod garbage_collector;
mod namespace;
mod ttl_after_finished;
mod storage_version_migrator;
mod pod_index;
mod taints;
mod node_lifecycle;
mod taint_eviction;
mod pod_garbage_collector;
mod scheduler;
mod service_account;
mod service_account_token;
mod legacy_token_cleaner;
mod root_ca_changes;
mod root_ca_publisher;
mod service_view;
mod endpoint_pod;
mod service_pods;
mod trigger_time;
mod endpoints;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod object_reference;
mod label_selector;
mod scale_client;
mod disruption;
mod horizontal_pod_autoscaler;
pub mod metrics_api;
mod pod_claims;
mod persistent_volume_binder;
mod persistent_volume_expander;
mod protection_finalizer;
mod pvc_protection;
mod pv_protection;
mod vac_protection;
mod ephemeral_volume;
mod int_or_string;
mod selector_index;
mod controller_history;
mod stateful_set;
mod raw_fields;
mod daemon_set;
mod certificate_request;
mod certificate_approver;
mod certificate_signer;
mod certificate_cleaner;
mod job;
mod cron_job;
mod cluster_role_aggregation;

pub use controller_manager::{ControllerManager, ControllerManagerOptions};
pub use controller_table::{ControllerDescriptor, ControllerUser, Role, roles};
pub use metrics_api::MetricsApi;
#[doc(hidden)]
pub use scheduler::benchmark as scheduler_benchmark;
pub use selection::{BadSelection, Selection};
pub use signers::Signers;
