//! [`PublicKey`]: verifies signatures.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Serialize;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as ParsedKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::der;
use machinery::Value;

/// The algorithm of a signature, by its name in RFC 7518.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
}

impl Algorithm {
    /// The algorithm with this name; None if it is not supported.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            _ => return None,
        })
    }
}

/// The kind of a key, which determines the algorithms that it verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Rsa,
    P256,
    P384,
}

/// The reason why a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnusableKey {
    /// Use another curve.
    #[error("it is on the curve P-521 (ES512), which is not supported: use P-256 or P-384")]
    P521,
    /// Use a larger key.
    #[error("it has {0} bits: RSA keys need 2048 to 8192")]
    RsaSize(usize),
    /// Use an RSA or EC key.
    #[error("it is neither an RSA key nor an EC key on the curve P-256 or P-384")]
    Kind,
    /// Convert the key, or restore it from a backup.
    #[error("it cannot be read ({0})")]
    Rejected(String),
}

/// See the [module documentation](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// The `RSAPublicKey` in DER, or the point of the curve.
    key: Vec<u8>,
    /// The key in the form of a key set.
    pub jwk: JsonWebKey,
}

/// A key in a JSON web key set, with the fields in output order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JsonWebKey {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    /// The ID of the key.
    pub kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    /// The algorithm with which service account tokens are signed.
    pub alg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

impl PublicKey {
    /// A key given as `SubjectPublicKeyInfo` in DER.
    pub fn from_info(info: &[u8]) -> Result<Self, UnusableKey> {
        let rejected = || UnusableKey::Rejected("not a public key in DER".to_owned());
        let (_, parsed) = SubjectPublicKeyInfo::from_der(info).map_err(|_| rejected())?;
        let key = parsed.subject_public_key.data.as_ref();
        match parsed.parsed().map_err(|_| rejected())? {
            ParsedKey::RSA(rsa) => {
                let bits = significant(rsa.modulus).len() * 8;
                if !(2048..=8192).contains(&bits) {
                    return Err(UnusableKey::RsaSize(bits));
                }
                Ok(Self::rsa(key, rsa.modulus, rsa.exponent))
            }
            ParsedKey::EC(_) => {
                let kind = if contains(info, der::P256) {
                    KeyKind::P256
                } else if contains(info, der::P384) {
                    KeyKind::P384
                } else if contains(info, der::P521) {
                    return Err(UnusableKey::P521);
                } else {
                    return Err(UnusableKey::Kind);
                };
                Self::point(kind, key)
            }
            _ => Err(UnusableKey::Kind),
        }
    }

    /// A key of a JSON web key set, with the ID that it has there. Keys for another use than signatures
    /// are refused.
    pub fn from_jwk(jwk: &Value) -> Result<Self, UnusableKey> {
        let text = |field: &str| jwk[field].as_str().unwrap_or_default();
        let number = |field: &str| {
            let bytes = BASE64_URL_SAFE_NO_PAD.decode(text(field).trim_end_matches('='));
            bytes.map_err(|_| UnusableKey::Rejected(format!("{field:?} is not a number")))
        };
        if !matches!(text("use"), "" | "sig") {
            return Err(UnusableKey::Rejected("it is not for signatures".to_owned()));
        }
        let mut key = match (text("kty"), text("crv")) {
            ("RSA", _) => {
                let (modulus, exponent) = (number("n")?, number("e")?);
                let bits = significant(&modulus).len() * 8;
                if !(2048..=8192).contains(&bits) {
                    return Err(UnusableKey::RsaSize(bits));
                }
                let numbers = [der::integer(&modulus), der::integer(&exponent)];
                let key = der::value(der::SEQUENCE, &[&numbers[0], &numbers[1]]);
                Self::rsa(&key, &modulus, &exponent)
            }
            ("EC", "P-256") => {
                Self::point(KeyKind::P256, &point(32, &number("x")?, &number("y")?))?
            }
            ("EC", "P-384") => {
                Self::point(KeyKind::P384, &point(48, &number("x")?, &number("y")?))?
            }
            ("EC", "P-521") => return Err(UnusableKey::P521),
            _ => return Err(UnusableKey::Kind),
        };
        text("kid").clone_into(&mut key.jwk.kid);
        Ok(key)
    }

    fn rsa(key: &[u8], modulus: &[u8], exponent: &[u8]) -> Self {
        let info = der::rsa_public_key_info(key);
        let number = |bytes: &[u8]| Some(BASE64_URL_SAFE_NO_PAD.encode(significant(bytes)));
        let jwk = JsonWebKey {
            usage: "sig",
            kty: "RSA",
            kid: key_id(&info),
            crv: None,
            alg: "RS256",
            x: None,
            y: None,
            n: number(modulus),
            e: number(exponent),
        };
        Self { kind: KeyKind::Rsa, key: key.to_vec(), jwk }
    }

    fn point(kind: KeyKind, point: &[u8]) -> Result<Self, UnusableKey> {
        let (curve, length, crv, alg) = match kind {
            KeyKind::P384 => (der::P384, 48, "P-384", "ES384"),
            _ => (der::P256, 32, "P-256", "ES256"),
        };
        let Some((4, coordinates)) = point.split_first().map(|(first, rest)| (*first, rest)) else {
            return Err(UnusableKey::Rejected("the point is compressed".to_owned()));
        };
        if coordinates.len() != 2 * length {
            return Err(UnusableKey::Rejected("the point is not on its curve".to_owned()));
        }
        let (x, y) = coordinates.split_at(length);
        let jwk = JsonWebKey {
            usage: "sig",
            kty: "EC",
            kid: key_id(&der::ec_public_key_info(curve, point)),
            crv: Some(crv),
            alg,
            x: Some(BASE64_URL_SAFE_NO_PAD.encode(x)),
            y: Some(BASE64_URL_SAFE_NO_PAD.encode(y)),
            n: None,
            e: None,
        };
        Ok(Self { kind, key: point.to_vec(), jwk })
    }

    /// The ID of the key, as Kubernetes computes it.
    pub fn id(&self) -> &str {
        &self.jwk.kid
    }

    /// The `RSAPublicKey` in DER, or the point of the curve.
    pub(in crate::auth::authentication) fn bytes(&self) -> &[u8] {
        &self.key
    }

    /// Returns whether `signature` is that of this key, made with `algorithm`.
    pub(super) fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verification: &dyn VerificationAlgorithm = match (self.kind, algorithm) {
            (KeyKind::Rsa, Algorithm::Rs256) => &RSA_PKCS1_2048_8192_SHA256,
            (KeyKind::Rsa, Algorithm::Rs384) => &RSA_PKCS1_2048_8192_SHA384,
            (KeyKind::Rsa, Algorithm::Rs512) => &RSA_PKCS1_2048_8192_SHA512,
            (KeyKind::Rsa, Algorithm::Ps256) => &RSA_PSS_2048_8192_SHA256,
            (KeyKind::Rsa, Algorithm::Ps384) => &RSA_PSS_2048_8192_SHA384,
            (KeyKind::Rsa, Algorithm::Ps512) => &RSA_PSS_2048_8192_SHA512,
            (KeyKind::P256, Algorithm::Es256) => &ECDSA_P256_SHA256_FIXED,
            (KeyKind::P384, Algorithm::Es384) => &ECDSA_P384_SHA384_FIXED,
            _ => return false,
        };
        UnparsedPublicKey::new(verification, &self.key).verify(signed, signature).is_ok()
    }
}

/// Upstream: the SHA-256 digest of the `SubjectPublicKeyInfo`.
fn key_id(info: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, info))
}

/// A point that is not compressed. Its coordinates have `length` bytes each.
fn point(length: usize, x: &[u8], y: &[u8]) -> Vec<u8> {
    let mut point = vec![4];
    for coordinate in [x, y] {
        let coordinate = significant(coordinate);
        point.extend(std::iter::repeat_n(0, length.saturating_sub(coordinate.len())));
        point.extend(coordinate);
    }
    point
}

/// A number without leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|it| **it == 0).count()..]
}

/// Returns whether the identifier is at the beginning of a key, where its algorithm is named.
pub(super) fn contains(der: &[u8], identifier: &[u8]) -> bool {
    der[..der.len().min(48)].windows(identifier.len()).any(|it| it == identifier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    fn reread(name: &str) -> Result<PublicKey, UnusableKey> {
        let path = format!("{}/tests/keys/{name}", env!("CARGO_MANIFEST_DIR"));
        let keys = super::super::key_file::read_public_keys(path.as_ref()).unwrap();
        let mut jwk = serde_json::to_value(&keys[0].jwk).unwrap();
        assert_eq!(PublicKey::from_jwk(&jwk).unwrap(), keys[0], "{name}");
        jwk["kid"] = "other".into();
        PublicKey::from_jwk(&jwk)
    }

    #[test]
    fn a_key_of_a_key_set_is_the_key_that_was_published() {
        for name in ["pkcs8.pub", "sec1.pub", "p384.pub"] {
            assert_eq!(reread(name).unwrap().id(), "other");
        }
    }

    #[test]
    fn keys_for_other_purposes_and_of_other_kinds_are_refused() {
        let refused = |jwk: Value| PublicKey::from_jwk(&jwk).unwrap_err();
        assert_eq!(refused(json!({"kty": "oct", "k": "c2VjcmV0"})), UnusableKey::Kind);
        assert_eq!(
            refused(json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"})),
            UnusableKey::RsaSize(24)
        );
        assert_eq!(refused(json!({"kty": "EC", "crv": "P-521"})), UnusableKey::P521);
        for jwk in
            [json!({"kty": "RSA", "use": "enc"}), json!({"kty": "EC", "crv": "P-256", "x": "!"})]
        {
            assert!(matches!(refused(jwk), UnusableKey::Rejected(_)));
        }
        let long = BASE64_URL_SAFE_NO_PAD.encode([1; 33]);
        let jwk = json!({"kty": "EC", "crv": "P-256", "x": long, "y": long});
        assert!(matches!(refused(jwk), UnusableKey::Rejected(_)));
    }
}
