//! The value of a record that cannot be decrypted: the reason, in place of the object.
//!
//! No stored object begins like this, since objects are JSON. The watch cache keeps such records apart
//! ([`reason`]), so that one of them does not stop the others.

use bytes::Bytes;

const MARKER: &[u8] = b"unreadable:";

/// The value of a record that cannot be decrypted.
pub(super) fn value(reason: &str) -> Bytes {
    [MARKER, reason.as_bytes()].concat().into()
}

/// Why a record cannot be read; None if it can.
pub(crate) fn reason(value: &[u8]) -> Option<&str> {
    value.strip_prefix(MARKER).and_then(|it| std::str::from_utf8(it).ok())
}
