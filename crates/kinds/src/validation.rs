//! Validations that kinds of several groups share.

pub(crate) mod rules;
pub(crate) mod conditions;
pub(crate) mod address;
pub(crate) mod quantities;
pub(crate) mod workload;
pub(crate) mod go_struct;
pub(crate) mod unified_diff;
#[cfg(test)]
pub(crate) mod testing;
