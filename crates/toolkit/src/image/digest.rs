//! [`Digest`]: the SHA-256 of a blob, which is also its name.

use std::fmt;
use std::io::{self, Write};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

const PREFIX: &str = "sha256:";

/// A digest, as in `sha256:9f86d081…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::from_hash(ring::digest::digest(&SHA256, bytes).as_ref())
    }

    fn from_hash(hash: &[u8]) -> Self {
        let mut text = PREFIX.to_owned();
        for byte in hash {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }

    /// The digits, which are the name of the blob's file.
    pub(crate) fn hex(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    /// Accepts 64 hexadecimal digits only, since they become the name of a file.
    fn try_from(text: String) -> Result<Self, String> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix(PREFIX) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_digit) => Ok(Self(text)),
            _ => Err(format!("{text:?} is not a digest of the form sha256:HEX")),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

/// Computes the digest and the length of what is written through it.
pub(crate) struct DigestWriter<W> {
    inner: W,
    context: Context,
    length: u64,
}

impl<W: Write> DigestWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, context: Context::new(&SHA256), length: 0 }
    }

    /// The writer, the digest, and the number of bytes.
    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.inner, Digest::from_hash(self.context.finish().as_ref()), self.length)
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.context.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_has_the_digest_of_its_bytes() {
        let mut writer = DigestWriter::new(Vec::new());
        writer.write_all(b"te").unwrap();
        writer.write_all(b"st").unwrap();
        let (bytes, digest, length) = writer.finish();
        assert_eq!((bytes.as_slice(), length), (&b"test"[..], 4));
        assert_eq!(digest, Digest::of(b"test"));
        assert!(digest.as_str().starts_with("sha256:9f86d081884c7d65"));
    }

    #[test]
    fn a_digest_is_a_safe_name_of_a_file() {
        for text in ["sha256:../../etc/passwd", "sha512:00", "sha256:0", &"a".repeat(71)] {
            assert!(Digest::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
