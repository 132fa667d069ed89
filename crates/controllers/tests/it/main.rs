//! The built-in controllers against an API server in the same process. Each test has its own server
//! in memory, with a manual clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod attacks;
mod certificates;
mod endpoint_pods;
mod endpoint_slices;
mod endpoints;
mod crash;
mod interception;
mod stale_cache;
mod plane;
mod objects;
#[path = "../../../apiserver/tests/it/log.rs"]
mod log;
mod service_accounts;
mod starting;
mod fake_node;
mod replica_sets;
mod deployments;
mod garbage_collection;
mod namespaces;
mod finished_jobs;
mod nodes;
mod scheduling;
mod disruption;
mod autoscaling;
mod autoscaling_limits;
mod volumes;
mod quotas;
mod storage_migrations;
mod component_metrics;
mod custom_metrics;
mod stateful_sets;
mod daemon_sets;
mod jobs;
mod job_restarts;
mod status_writes;
mod cron_jobs;
mod contention;
mod cluster_roles;
mod access_table;
