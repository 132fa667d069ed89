//! Reads files of keys in PEM: RSA keys in PKCS#1 and PKCS#8, EC keys in SEC 1 and PKCS#8, public keys
//! and certificates. A file without PEM is a private key in PKCS#8 and DER, which is the form in which
//! a plane stores its own.
//!
//! Upstream: `client-go/util/keyutil`. Blocks that are not keys, such as `EC PARAMETERS`, are skipped;
//! a key that cannot be used is an error here, and ignored there.

use std::path::{Path, PathBuf};
use std::{fs, io};

use x509_parser::pem::Pem;

use super::{PublicKey, SigningKey, UnusableKey};

/// The reason why a file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Name another file.
    #[error("cannot read {path}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Name a file with a key.
    #[error("{path} does not contain a valid RSA or ECDSA {kind} key")]
    NoKey {
        /// The path of the file.
        path: PathBuf,
        /// `private` or `public`.
        kind: &'static str,
    },
    /// Use another key.
    #[error("key {number} in {path} cannot be used")]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The position among the keys of the file, from one.
        number: usize,
        /// The cause.
        #[source]
        source: UnusableKey,
    },
}

/// A key of a file.
enum Key {
    Private(Box<SigningKey>),
    Public(Box<PublicKey>),
}

/// Reads the first private key of a file.
pub fn read_signing_key(path: &Path) -> Result<SigningKey, Error> {
    for key in read(path)? {
        if let Key::Private(key) = key? {
            return Ok(*key);
        }
    }
    Err(Error::NoKey { path: path.to_owned(), kind: "private" })
}

/// Reads all keys of a file. Of private keys and certificates it returns the public key.
pub fn read_public_keys(path: &Path) -> Result<Vec<PublicKey>, Error> {
    let public = |key: Key| match key {
        Key::Private(key) => key.public().clone(),
        Key::Public(key) => *key,
    };
    let keys: Result<Vec<_>, Error> = read(path)?.into_iter().map(|it| it.map(public)).collect();
    match keys? {
        keys if keys.is_empty() => Err(Error::NoKey { path: path.to_owned(), kind: "public" }),
        keys => Ok(keys),
    }
}

fn read(path: &Path) -> Result<Vec<Result<Key, Error>>, Error> {
    let data = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let keys: Vec<Result<Key, UnusableKey>> = if data.starts_with(&[super::der::SEQUENCE]) {
        vec![SigningKey::from_pkcs8(&data).map(private)]
    } else {
        // What follows a block that is not PEM cannot be read.
        Pem::iter_from_buffer(&data).map_while(Result::ok).filter_map(|it| key(&it)).collect()
    };
    let unusable =
        |number: usize, source| Error::Unusable { path: path.to_owned(), number, source };
    let numbered = keys.into_iter().zip(1..);
    Ok(numbered.map(|(key, number)| key.map_err(|it| unusable(number, it))).collect())
}

fn private(key: SigningKey) -> Key {
    Key::Private(Box::new(key))
}

fn public(key: PublicKey) -> Key {
    Key::Public(Box::new(key))
}

/// The key in a block; None if the block contains something else.
fn key(pem: &Pem) -> Option<Result<Key, UnusableKey>> {
    let der = pem.contents.as_slice();
    Some(match pem.label.as_str() {
        "PRIVATE KEY" => SigningKey::from_pkcs8(der).map(private),
        "RSA PRIVATE KEY" => SigningKey::from_pkcs1(der).map(private),
        "EC PRIVATE KEY" => SigningKey::from_sec1(der).map(private),
        "PUBLIC KEY" => PublicKey::from_info(der).map(public),
        "CERTIFICATE" => match pem.parse_x509() {
            Ok(certificate) => PublicKey::from_info(certificate.public_key().raw).map(public),
            Err(_) => Err(UnusableKey::Rejected("not a certificate".to_owned())),
        },
        _ => return None,
    })
}
