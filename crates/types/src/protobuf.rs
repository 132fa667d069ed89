//! Kubernetes' protobuf, `application/vnd.kubernetes.protobuf`, to and from JSON.
//!
//! There is no struct per message: [`Type::wire`] has the field numbers of a type, and one encoder
//! and one decoder use it for all of them.
//!
//! ```
//! use types::protobuf;
//! use serde_json::json;
//!
//! let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": "aGk="}});
//! let bytes = protobuf::encode(&secret).expect("Secrets are built in");
//! let envelope = protobuf::Envelope::read(&bytes)?;
//! assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "Secret"));
//!
//! let ty = types::find("core/v1.Secret").expect("Secrets are built in");
//! assert_eq!(protobuf::decode(ty, envelope.raw)?["data"], json!({"key": "aGk="}));
//! # Ok::<(), protobuf::Error>(())
//! ```
//!
//! On the wire:
//!
//! ```text
//! object   "k8s\0" { typeMeta (1): { apiVersion (1), kind (2) }, raw (2): the object's message }
//! list     the same; the message is { metadata (1), items (2), items (2), … }
//! watch    for each event its length in four bytes, { type (1), object (2): { raw (1): object } }
//! ```
//!
//! Unset fields are not written. Go writes many zeros, which decode to the same object.

mod decode;
mod encode;
mod envelope;
mod wire;

pub use encode::{write_field, write_message};
pub use envelope::{Envelope, write_envelope, write_event};
pub use wire::Error;

use serde_json::{Map, Value};

use crate::Type;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The field number of the metadata of a list.
pub const LIST_METADATA: u16 = 1;

/// The field number of the items of a list.
pub const LIST_ITEMS: u16 = 2;

/// An object in its envelope; None if its kind is not built in.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let ty = of_kind(api_version, kind)?;
    let mut message = Vec::new();
    write_message(ty, object.to_string().as_bytes(), &mut message).ok()?;
    let mut out = Vec::with_capacity(message.len() + 64);
    write_envelope(api_version, kind, message.len(), &mut out);
    out.extend_from_slice(&message);
    Some(out)
}

/// Reads the message of an object without its envelope.
///
/// The result fits the type, except for what only [`crate::normalize()`] checks: the form of
/// quantities, and the values that Go writes for unset fields.
pub fn decode(ty: &'static Type, message: &[u8]) -> Result<Map<String, Value>, Error> {
    let mut object = Map::new();
    decode::message(ty, message, &mut object, 0)?;
    Ok(object)
}

/// Some kinds of `meta.k8s.io/v1`, such as Status, are in every version of every group.
fn of_kind(api_version: &str, kind: &str) -> Option<&'static Type> {
    crate::of_kind(api_version, kind).or_else(|| crate::of_kind("meta.k8s.io/v1", kind))
}

#[cfg(test)]
mod tests;
