//! [`Cipher`]: the ciphers whose keys are in the configuration file. The formats are kube-apiserver's:
//!
//! ```text
//! aescbc     IV (16)    │ AES-CBC with PKCS #7 padding              not authenticated
//! aesgcm     nonce (12) │ AES-GCM and tag (16)                      bound to the key in the store
//! secretbox  nonce (24) │ tag (16), XSalsa20 and Poly1305           authenticated
//! ```
//!
//! Keys are never printed.

use std::fmt;

use aes::cipher::block_padding::{NoPadding, Pkcs7};
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit, KeyIvInit, StreamCipher,
};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, Nonce};
use poly1305::Poly1305;
use ring::rand::{SecureRandom, SystemRandom};
use salsa20::XSalsa20;

/// The error for data that is shorter than everything that the cipher writes.
const TOO_SHORT: &str = "the stored data was shorter than the required size";

/// The size of an AES block, and of the IV of AES-CBC.
const BLOCK: usize = 16;

/// The size of the nonce of AES-GCM.
const GCM_NONCE: usize = 12;

/// The sizes of the key, the nonce and the tag of `XSalsa20Poly1305`.
pub(super) const SECRETBOX_KEY: usize = 32;
const SECRETBOX_NONCE: usize = 24;
const SECRETBOX_TAG: usize = 16;

/// A cipher with its key.
pub(super) enum Cipher {
    /// `aescbc`.
    AesCbc(AesCbc),
    /// `aesgcm`.
    AesGcm(Gcm),
    /// `secretbox`.
    Secretbox(Secretbox),
}

impl Cipher {
    /// Encrypts `data` after `prefix`. `location` is the key in the store.
    pub(super) fn seal(&self, prefix: &[u8], data: &[u8], location: &str) -> Vec<u8> {
        match self {
            Self::AesCbc(cipher) => cipher.seal(prefix, data),
            Self::AesGcm(cipher) => cipher.seal(prefix, data, location),
            Self::Secretbox(cipher) => cipher.seal(prefix, data),
        }
    }

    /// Decrypts stored data.
    pub(super) fn open(&self, data: &[u8], location: &str) -> Result<Vec<u8>, &'static str> {
        match self {
            Self::AesCbc(cipher) => cipher.open(data),
            Self::AesGcm(cipher) => cipher.open(data, location),
            Self::Secretbox(cipher) => cipher.open(data),
        }
    }
}

/// Shows no key.
impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AesCbc(_) => "AesCbc",
            Self::AesGcm(_) => "AesGcm",
            Self::Secretbox(_) => "Secretbox",
        })
    }
}

/// Fills `bytes` from the operating system: a repeated nonce reveals plaintext, so a seeded source
/// must not be used.
pub(super) fn fill_random(bytes: &mut [u8]) {
    SystemRandom::new().fill(bytes).expect("the operating system gives random bytes");
}

/// `prefix`, a random nonce of `nonce` bytes, and room for `len` bytes. Returns the nonce as well.
fn begin<const NONCE: usize>(prefix: &[u8], len: usize) -> (Vec<u8>, [u8; NONCE]) {
    let mut nonce = [0; NONCE];
    fill_random(&mut nonce);
    let mut sealed = Vec::with_capacity(prefix.len() + NONCE + len);
    sealed.extend_from_slice(prefix);
    sealed.extend_from_slice(&nonce);
    (sealed, nonce)
}

/// AES-CBC with a key of 16, 24 or 32 bytes.
pub(super) enum AesCbc {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl AesCbc {
    /// None if the key has another size.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        Some(match key.len() {
            16 => Self::Aes128(Box::new(Aes128::new_from_slice(key).ok()?)),
            24 => Self::Aes192(Box::new(Aes192::new_from_slice(key).ok()?)),
            32 => Self::Aes256(Box::new(Aes256::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }

    fn seal(&self, prefix: &[u8], data: &[u8]) -> Vec<u8> {
        let (mut sealed, iv) = begin::<BLOCK>(prefix, data.len() + BLOCK);
        let start = sealed.len();
        sealed.extend_from_slice(data);
        sealed.resize(start + data.len() / BLOCK * BLOCK + BLOCK, 0);
        let buffer = &mut sealed[start..];
        match self {
            Self::Aes128(aes) => encrypt_cbc(&**aes, &iv, buffer, data.len()),
            Self::Aes192(aes) => encrypt_cbc(&**aes, &iv, buffer, data.len()),
            Self::Aes256(aes) => encrypt_cbc(&**aes, &iv, buffer, data.len()),
        }
        sealed
    }

    fn open(&self, data: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (iv, data) = data.split_first_chunk::<BLOCK>().ok_or(TOO_SHORT)?;
        if !data.len().is_multiple_of(BLOCK) {
            return Err("the stored data is not a multiple of the block size");
        }
        let mut opened = data.to_vec();
        match self {
            Self::Aes128(aes) => decrypt_cbc(&**aes, iv, &mut opened),
            Self::Aes192(aes) => decrypt_cbc(&**aes, iv, &mut opened),
            Self::Aes256(aes) => decrypt_cbc(&**aes, iv, &mut opened),
        }
        remove_padding(opened)
    }
}

/// Pads and encrypts the first `len` bytes of `buffer`, which has space for the padding.
fn encrypt_cbc<C>(aes: &C, iv: &[u8; BLOCK], buffer: &mut [u8], len: usize)
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Clone,
{
    let mode = cbc::Encryptor::inner_iv_init(aes.clone(), iv.into());
    let padded = mode.encrypt_padded::<Pkcs7>(buffer, len);
    padded.expect("the buffer has space for the padding");
}

/// Decrypts whole blocks in place; the padding remains.
fn decrypt_cbc<C>(aes: &C, iv: &[u8; BLOCK], buffer: &mut [u8])
where
    C: BlockCipherDecrypt + BlockSizeUser<BlockSize = U16> + Clone,
{
    let mode = cbc::Decryptor::inner_iv_init(aes.clone(), iv.into());
    mode.decrypt_padded::<NoPadding>(buffer).expect("the buffer has whole blocks");
}

/// Removes the PKCS #7 padding. Upstream: storage/value/encrypt/aes/aes.go, whose messages these are.
fn remove_padding(mut opened: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    let padding = opened.last().copied().unwrap_or(0);
    let size = opened.len().checked_sub(usize::from(padding));
    let Some(size) = size.filter(|_| padding > 0) else {
        return Err("invalid PKCS7 data (empty or not padded)");
    };
    if opened[size..].iter().any(|it| *it != padding) {
        return Err("invalid padding on input");
    }
    opened.truncate(size);
    Ok(opened)
}

/// AES-GCM with a key of 16, 24 or 32 bytes. The key in the store is authenticated, so that a value
/// cannot be moved to another key.
pub(super) enum Gcm {
    Aes128(Box<Aes128Gcm>),
    Aes192(Box<AesGcm<Aes192, U12>>),
    Aes256(Box<Aes256Gcm>),
}

impl Gcm {
    /// None if the key has another size.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        Some(match key.len() {
            16 => Self::Aes128(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            24 => Self::Aes192(Box::new(AesGcm::new_from_slice(key).ok()?)),
            32 => Self::Aes256(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }

    /// Encrypts `data` with a random nonce, after `prefix`.
    pub(super) fn seal(&self, prefix: &[u8], data: &[u8], location: &str) -> Vec<u8> {
        let (mut sealed, nonce) = begin::<GCM_NONCE>(prefix, data.len() + 16);
        let nonce = Nonce::<U12>::from(nonce);
        let payload = Payload { msg: data, aad: location.as_bytes() };
        let encrypted = match self {
            Self::Aes128(aes) => aes.encrypt(&nonce, payload),
            Self::Aes192(aes) => aes.encrypt(&nonce, payload),
            Self::Aes256(aes) => aes.encrypt(&nonce, payload),
        };
        sealed.extend_from_slice(&encrypted.expect("a value has less than 64 GiB"));
        sealed
    }

    /// Decrypts a nonce and what follows it.
    pub(super) fn open(&self, data: &[u8], location: &str) -> Result<Vec<u8>, &'static str> {
        let (nonce, data) = data.split_first_chunk::<GCM_NONCE>().ok_or(TOO_SHORT)?;
        let nonce = Nonce::<U12>::from(*nonce);
        let payload = Payload { msg: data, aad: location.as_bytes() };
        let decrypted = match self {
            Self::Aes128(aes) => aes.decrypt(&nonce, payload),
            Self::Aes192(aes) => aes.decrypt(&nonce, payload),
            Self::Aes256(aes) => aes.decrypt(&nonce, payload),
        };
        // Upstream: the message of Go's crypto/cipher.
        decrypted.map_err(|_| "cipher: message authentication failed")
    }
}

/// `NaCl`'s `secretbox`: `XSalsa20` and Poly1305.
pub(super) struct Secretbox([u8; SECRETBOX_KEY]);

impl Secretbox {
    /// None if the key has another size.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(Self)
    }

    /// The cipher after the first 32 bytes of its stream, which are the key of the authenticator.
    fn start(&self, nonce: &[u8; SECRETBOX_NONCE]) -> (XSalsa20, Poly1305) {
        let mut stream = XSalsa20::new(&self.0.into(), nonce.into());
        let mut key = poly1305::Key::default();
        stream.apply_keystream(&mut key);
        (stream, Poly1305::new(&key))
    }

    fn seal(&self, prefix: &[u8], data: &[u8]) -> Vec<u8> {
        let (mut sealed, nonce) = begin::<SECRETBOX_NONCE>(prefix, SECRETBOX_TAG + data.len());
        let (mut stream, authenticator) = self.start(&nonce);
        let tag_at = sealed.len();
        sealed.extend_from_slice(&[0; SECRETBOX_TAG]);
        sealed.extend_from_slice(data);
        let (tag, encrypted) = sealed[tag_at..].split_at_mut(SECRETBOX_TAG);
        stream.apply_keystream(encrypted);
        tag.copy_from_slice(&authenticator.compute_unpadded(encrypted));
        sealed
    }

    fn open(&self, data: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (nonce, data) = data.split_first_chunk::<SECRETBOX_NONCE>().ok_or(TOO_SHORT)?;
        let (tag, encrypted) = data.split_first_chunk::<SECRETBOX_TAG>().ok_or(TOO_SHORT)?;
        let (mut stream, authenticator) = self.start(nonce);
        let found = authenticator.compute_unpadded(encrypted);
        // Compared in constant time.
        if found.iter().zip(tag).fold(0, |different, (a, b)| different | (a ^ b)) != 0 {
            // Upstream: the message of a wrong key or changed data.
            return Err("output array was not large enough for encryption");
        }
        let mut opened = encrypted.to_vec();
        stream.apply_keystream(&mut opened);
        Ok(opened)
    }
}

#[cfg(test)]
mod tests;
