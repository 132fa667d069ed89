//! Which certificates are believed, as Go's `crypto/x509` decides it.
//!
//! Clusters are full of certificates that were made for Go programs. rustls refuses two kinds of
//! them that Go accepts, and both are common for webhooks:
//!
//! - the certificate itself is in the bundle of authorities (envtest, many operators);
//! - the certificate is marked as that of an authority (`openssl req -x509`).
//!
//! It does not look at a root's validity, usages, path length and critical extensions, nor whether
//! an issuer's key may sign certificates. Go does, and so does this crate.
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
//! These are refused, which Go accepts:
//!
//! - RSA keys of less than 2048 bits, and keys on the curve P-521 ([`UnsupportedKey`]);
//! - an authority's certificate as end entity below an issuer with constraints on names;
//! - the usage `anyExtendedKeyUsage`, unless the end entity is an authority or in the bundle;
//! - critical policy constraints, and other critical policies in a chain that rustls verifies,
//!   except in its root.

mod chain;
mod client_verifier;
mod extensions;
mod key;
mod name;
mod roots;
mod server_verifier;

pub use client_verifier::ClientVerifier;
pub use key::UnsupportedKey;
pub use name::NameMismatch;
pub use roots::Roots;
pub use server_verifier::ServerVerifier;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
