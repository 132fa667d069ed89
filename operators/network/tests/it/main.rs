//! The operator against a server in the same process.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
