//! Tests of the built-in kinds as a whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]
#![allow(clippy::needless_pass_by_value, reason = "json!({…}) reads best without a reference")]

mod apply;
mod random;
mod round_trips;
