//! TLS connections of HTTP clients, with certificates that are verified by the rules of Go's
//! `crypto/x509`.
//!
//! [`client_config`] has the settings of a client, [`HttpsConnector`] opens connections for a pool, and
//! [`dial`] and [`handshake`] open a single one, all as a [`Stream`] for hyper. All HTTP clients of
//! Sampan use them; pools, retries and failover belong to the client. [`Authority`] issues
//! certificates.
//!
//! # Verification
//!
//! The certificates in clusters are issued for Go programs. rustls refuses two kinds of them that Go
//! accepts, and both are common for webhooks:
//!
//! - the certificate itself is in the bundle of authorities (envtest, many operators);
//! - the certificate is marked as that of an authority (`openssl req -x509`).
//!
//! rustls does not check a root's validity, usages, path length and critical extensions, nor whether
//! an issuer's key may sign certificates. Go does, and so does this crate.
//!
//! ```
//! use std::sync::Arc;
//! use tls::{Roots, ServerVerifier};
//!
//! /// Accepts servers whose certificate has a chain to the bundle.
//! fn verifier(bundle: &[u8]) -> Option<ServerVerifier> {
//!     let roots = Roots::from_pem(bundle);
//!     let provider = Arc::new(rustls::crypto::ring::default_provider());
//!     (!roots.is_empty()).then(|| ServerVerifier::new(roots, provider))
//! }
//! ```
//!
//! This crate refuses the following, which Go accepts:
//!
//! - RSA keys of less than 2048 bits, and keys on the curve P-521 ([`UnsupportedKey`]);
//! - an authority's certificate as end entity under an issuer with name constraints;
//! - the usage `anyExtendedKeyUsage`, unless the end entity is an authority or in the bundle;
//! - critical policy constraints, and other critical policies in a chain that rustls verifies,
//!   except in its root.

mod authority;
mod chain;
mod client_config;
mod client_request;
mod client_verifier;
mod connect;
mod extensions;
mod insecure_verifier;
mod key;
mod name;
mod possession_verifier;
mod request_signing;
mod roots;
mod server_verifier;
mod serving_key;
mod stream;

pub use authority::{Authority, BACKDATED, Certified, LoadError};
pub use client_config::{ConfigError, Identity, Trust, client_config};
pub use client_request::ClientRequest;
pub use client_verifier::ClientVerifier;
pub use connect::{HttpsConnector, dial, handshake, pool_builder};
pub use insecure_verifier::InsecureVerifier;
pub use key::UnsupportedKey;
pub use name::NameMismatch;
pub use possession_verifier::PossessionVerifier;
pub use rcgen::Error as IssueError;
pub use request_signing::{CertificateTemplate, RequestError};
pub use roots::Roots;
pub use server_verifier::ServerVerifier;
pub use serving_key::{ServingKeyError, serving_key};
pub use stream::Stream;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
