//! The kinds of `scheduling.k8s.io`.

pub mod priority_class;
