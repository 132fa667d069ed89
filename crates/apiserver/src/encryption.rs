//! Encryption at rest: what is on the disk is encrypted, what is in memory is not.
//!
//! [`EncryptedStore`] is between the plane and its store: values are encrypted when they are written,
//! and decrypted when they are read, so that neither the store nor the rest of the server knows keys.
//! Keys come from the file of [`EncryptionSettings`]; the formats are kube-apiserver's, so that it
//! reads what this server has written, and the reverse.
//!
//! ```text
//! registry ── {"kind":… ──▶ EncryptedStore ── k8s:enc:aesgcm:v1:key1:… ──▶ store
//!    ▲ watch cache ◀── {"kind":… ──┘ ▲ transformers (which resource, which providers)
//!                                    │ reload (the file has changed)
//! ```
//!
//! Invariants:
//! - a value whose resource has providers is written by the first of them, or not at all;
//! - a value that cannot be decrypted is [`unreadable`], and does not affect others.

mod ciphers;
pub mod config_file;
mod encrypted_store;
mod envelope_metrics;
mod kms;
mod reload;
mod storage_prefixes;
mod transformers;
pub(crate) mod unreadable;

use std::path::PathBuf;

pub(crate) use encrypted_store::EncryptedStore;
pub(crate) use reload::Encryption;

/// The settings of encryption at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionSettings {
    /// The file of the `EncryptionConfiguration`.
    pub path: PathBuf,
    /// Whether the file is read again when it has changed.
    pub reloads: bool,
}
