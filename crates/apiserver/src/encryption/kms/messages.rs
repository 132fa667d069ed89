//! The protobuf messages of the KMS API v2, and of the values that its provider stores. Upstream:
//! k8s.io/kms/apis/v2/api.proto and storage/value/encrypt/envelope/kmsv2/v2/api.proto.
//!
//! Messages with keys have no `Debug`.

use std::collections::BTreeMap;

/// The request of `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

/// The response of `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    /// `v2`, or `v2beta1`, which is equal to it.
    #[prost(string, tag = "1")]
    pub(super) version: String,
    /// `ok`, or why the plugin is not healthy.
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    /// The key with which the plugin encrypts.
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

/// The request of `Encrypt`.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
    /// Identifies the request in logs.
    #[prost(string, tag = "2")]
    pub(super) uid: String,
}

/// The response of `Encrypt`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

/// The request of `Decrypt`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    /// Identifies the request in logs.
    #[prost(string, tag = "2")]
    pub(super) uid: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

/// The response of `Decrypt`.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) plaintext: Vec<u8>,
}

/// A stored value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) encrypted_data: Vec<u8>,
    /// The key with which the plugin has encrypted the next field.
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    /// The key of the data, or the seed of the keys, in encrypted form.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    /// [`AES_GCM_KEY`] or [`HKDF_SEED`].
    #[prost(int32, tag = "5")]
    pub(super) encrypted_dek_source_type: i32,
}

/// The source is the key of AES-GCM; written by servers before 1.29.
pub(super) const AES_GCM_KEY: i32 = 0;

/// The source is the seed of HKDF with SHA-256, which derives a key of AES-GCM for each value.
pub(super) const HKDF_SEED: i32 = 1;

const MAX_KEY_ID: usize = 1 << 10;
const MAX_DEK_SOURCE: usize = 1 << 10;
const MAX_ANNOTATIONS: usize = 32 << 10;

impl EncryptedObject {
    /// Checks the limits on what a plugin has returned. `encrypted_data` is not checked.
    pub(super) fn validate(&self) -> Result<(), String> {
        if !matches!(self.encrypted_dek_source_type, AES_GCM_KEY | HKDF_SEED) {
            return Err(format!(
                "unknown encryptedDEKSourceType: {}",
                self.encrypted_dek_source_type
            ));
        }
        let source = self.encrypted_dek_source.len();
        let source_error = match source {
            0 => Some("encrypted DEK source is empty".to_owned()),
            1..=MAX_DEK_SOURCE => None,
            _ => Some(format!(
                "encrypted DEK source is {source} bytes, which exceeds the max size of {MAX_DEK_SOURCE}"
            )),
        };
        if let Some(why) = source_error {
            return Err(format!("failed to validate encrypted DEK source: {why}"));
        }
        validate_key_id(&self.key_id).map_err(|why| format!("failed to validate key id: {why}"))?;
        let size: usize = self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            return Err(format!(
                "failed to validate annotations: total size of annotations is {size}, which exceeds the max size of {MAX_ANNOTATIONS}"
            ));
        }
        for key in self.annotations.keys() {
            if !key.contains('.') || !machinery::names::dns1123_subdomain(key).is_empty() {
                return Err(format!(
                    "failed to validate annotations: annotations: Invalid value: {}: should be a domain with at least two segments separated by dots",
                    machinery::field_path::quote(key)
                ));
            }
        }
        Ok(())
    }

    /// Identifies the source of keys.
    pub(super) fn source(&self) -> Vec<u8> {
        let source = Self { encrypted_data: Vec::new(), ..self.clone() };
        prost::Message::encode_to_vec(&source)
    }
}

/// Checks the limits on the name of a key.
pub(super) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        1..=MAX_KEY_ID => Ok(()),
        len => Err(format!("keyID is {len} bytes, which exceeds the max size of {MAX_KEY_ID}")),
    }
}
