//! The kinds of `autoscaling`.

pub mod horizontal_pod_autoscaler;
mod scale;

pub use scale::SCALE_COLUMNS;
