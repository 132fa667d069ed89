//! The kinds of `apiregistration.k8s.io`.

pub mod api_service;
