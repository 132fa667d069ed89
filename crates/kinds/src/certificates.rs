//! The kinds of `certificates.k8s.io`.

mod pem_blocks;
pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
