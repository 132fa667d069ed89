//! JSON web tokens in compact form: [`JsonWebToken`] reads and verifies them, [`SigningKey`] signs
//! them, and [`key_file`] reads the keys.
//!
//! The algorithm in a token's header never decides how the token is verified: it must be one of the
//! key's. An RSA key verifies no signature of an elliptic curve, and no key verifies `none` or the
//! symmetric algorithms, so that a public key is never used as a secret.

mod der;
pub mod key_file;
mod public_key;
mod signing_key;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use machinery::Object;

pub use public_key::{Algorithm, JsonWebKey, PublicKey, UnusableKey};
pub use signing_key::SigningKey;

/// A token whose signature is not verified yet.
pub(super) struct JsonWebToken<'a> {
    /// The header and the payload as they were signed.
    signed: &'a str,
    signature: &'a str,
    header: Object,
    /// The claims. They are not to be trusted before [`verify`](Self::verify).
    pub payload: Object,
}

impl<'a> JsonWebToken<'a> {
    /// Reads a token; None if it is not a JSON web token.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        Some(Self { signed, signature, header: read(header)?, payload: read(payload)? })
    }

    /// The ID of the key that signed the token; empty if the token does not specify it.
    pub(super) fn key_id(&self) -> &str {
        self.header.str_at(&["kid"])
    }

    /// The name of the algorithm in the header, which is not to be trusted.
    pub(super) fn algorithm(&self) -> &str {
        self.header.str_at(&["alg"])
    }

    /// Returns whether the signature is that of the key.
    pub(super) fn verify(&self, key: &PublicKey) -> bool {
        // Extensions that the verifier must understand: none are known.
        if self.header.get(&["crit"]).is_some() {
            return false;
        }
        let Some(algorithm) = Algorithm::parse(self.header.str_at(&["alg"])) else { return false };
        let signature = BASE64_URL_SAFE_NO_PAD.decode(self.signature);
        signature.is_ok_and(|it| key.verify(algorithm, self.signed.as_bytes(), &it))
    }
}

/// Reads a part of a token, which is a JSON object.
fn read(part: &str) -> Option<Object> {
    let text = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
    Some(Object::new(serde_json::from_slice(&text).ok()?))
}
