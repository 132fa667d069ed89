//! Which certificates are believed, as Go's `crypto/x509` decides it.
//!
//! Clusters are full of certificates that were made for Go programs. rustls refuses two kinds of
//! them that Go accepts, and both are common for webhooks:
//!
//! - the certificate itself is in the bundle of authorities (envtest, many operators);
//! - the certificate is marked as that of an authority (`openssl req -x509`).
//!
//! It also accepts two that Go refuses: those of an authority that has expired, and those that were
//! signed by a certificate which is not one of an authority.
//!
//! ```
//! use std::sync::Arc;
//! use tls::{Roots, ServerVerifier};
//!
//! /// Believes whoever the bundle vouches for.
//! fn verifier(bundle: &[u8]) -> Option<ServerVerifier> {
//!     let roots = Roots::from_pem(bundle);
//!     let provider = Arc::new(rustls::crypto::ring::default_provider());
//!     (!roots.is_empty()).then(|| ServerVerifier::new(roots, provider))
//! }
//! ```
//!
//! RSA keys of less than 2048 bits are refused, which Go still accepts.

mod chain;
mod client_verifier;
mod name;
mod roots;
mod server_verifier;

pub use client_verifier::ClientVerifier;
pub use name::NameMismatch;
pub use roots::Roots;
pub use server_verifier::ServerVerifier;

#[cfg(test)]
mod fixtures;
