//! [`SigningKey`]: signs tokens.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};

use super::der;
use super::public_key::{PublicKey, UnusableKey, contains};
use machinery::{Value, json};

/// See the [module documentation](self). RSA keys sign with RS256, those of the curves P-256 and P-384
/// with ES256 and ES384.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
    random: SystemRandom,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl SigningKey {
    /// A new key on the curve P-256, in PKCS#8; None if the system's source of randomness failed.
    pub(in crate::auth::authentication) fn generate() -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        der.map(|it| it.as_ref().to_vec()).ok()
    }

    /// A key in the form PKCS#8.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, UnusableKey> {
        if contains(der, der::RSA) {
            return Self::rsa(RsaKeyPair::from_pkcs8(der));
        }
        let (algorithm, curve) = if contains(der, der::P256) {
            (&ECDSA_P256_SHA256_FIXED_SIGNING, der::P256)
        } else if contains(der, der::P384) {
            (&ECDSA_P384_SHA384_FIXED_SIGNING, der::P384)
        } else if contains(der, der::P521) {
            return Err(UnusableKey::P521);
        } else {
            return Err(UnusableKey::Kind);
        };
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der, &random).map_err(|it| rejected(&it))?;
        let info = der::ec_public_key_info(curve, pair.public_key().as_ref());
        Ok(Self { pair: Pair::Ec(pair), public: PublicKey::from_info(&info)?, random })
    }

    /// An RSA key in the form PKCS#1.
    pub fn from_pkcs1(der: &[u8]) -> Result<Self, UnusableKey> {
        Self::rsa(RsaKeyPair::from_der(der))
    }

    /// An EC key in the form SEC 1.
    pub fn from_sec1(der: &[u8]) -> Result<Self, UnusableKey> {
        let names = |curve: &[u8]| der.windows(curve.len()).any(|it| it == curve);
        let curves = [der::P256, der::P384, der::P521];
        let curve = curves.into_iter().find(|it| names(it)).ok_or(UnusableKey::Kind)?;
        Self::from_pkcs8(&der::ec_private_key_info(curve, der))
    }

    fn rsa(pair: Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<Self, UnusableKey> {
        let pair = pair.map_err(|it| rejected(&it))?;
        let public = PublicKey::from_info(&der::rsa_public_key_info(pair.public_key().as_ref()))?;
        Ok(Self { pair: Pair::Rsa(pair), public, random: SystemRandom::new() })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A token with this payload; None if the system's source of randomness failed.
    pub(in crate::auth::authentication) fn sign(&self, payload: &Value) -> Option<String> {
        let header = json!({"alg": self.public.jwk.alg, "kid": self.public.id()});
        self.sign_with_header(&header.to_string(), &payload.to_string())
    }

    /// A token with this header and payload, which are JSON.
    pub fn sign_with_header(&self, header: &str, payload: &str) -> Option<String> {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", encode(header), encode(payload));
        let signature = match &self.pair {
            Pair::Ec(pair) => pair.sign(&self.random, signed.as_bytes()).ok()?.as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let message = signed.as_bytes();
                pair.sign(&RSA_PKCS1_SHA256, &self.random, message, &mut signature).ok()?;
                signature
            }
        };
        Some(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// ring's reason is a word such as `TooSmall`.
fn rejected(why: &ring::error::KeyRejected) -> UnusableKey {
    UnusableKey::Rejected(why.to_string())
}

impl fmt::Debug for SigningKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.public.id())
    }
}
