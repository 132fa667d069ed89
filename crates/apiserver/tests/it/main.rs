//! The API server in process: every test has a separate plane in memory, whose clock advances only
//! when the test moves it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and says which it was"
)]

mod parameters;
mod objects;
mod https;
mod log;
mod mute_proxy;
mod webhook_server;
mod conversion_server;
mod every_kind;
mod crud;
mod concurrency;
mod lists;
mod continue_tokens;
mod selectable_fields;
mod watch;
mod unread_watches;
mod real_clock;
mod faulty_store;
mod store_faults;
mod store_connection;
mod refusals;
mod bounds;
mod apply;
mod deletion;
mod definitions;
mod definition_races;
mod builtin_groups;
mod schema;
mod conversion;
mod tables;
mod field_order;
mod connections;
mod metrics;
mod services;
mod scale;
mod policies;
mod policy_types;
mod expression_variables;
mod unstored;
mod status_times;
mod admin_access;
mod admission_plugins;
mod security;
mod authorizers;
mod unreadable;
mod aggregation;
mod aggregation_checks;
mod webhooks;
mod webhook_failures;
mod outbound;
mod initializers;
mod two_planes;
mod values;
mod stop;
mod slow_disk;
mod canceled_requests;
mod system_objects;
