//! The kinds of `certificates.k8s.io`.

pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
