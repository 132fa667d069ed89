//! Writes the few structures of DER that contain keys.

/// The tag of an integer.
pub(super) const INTEGER: u8 = 0x02;
/// The tag of a bit string.
pub(super) const BIT_STRING: u8 = 0x03;
/// The tag of an octet string.
pub(super) const OCTET_STRING: u8 = 0x04;
/// The tag of a sequence.
pub(super) const SEQUENCE: u8 = 0x30;

/// The object identifier `rsaEncryption`.
pub(super) const RSA: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// The object identifier `ecPublicKey`.
pub(super) const EC: &[u8] = &[0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// The object identifier of the curve P-256.
pub(super) const P256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// The object identifier of the curve P-384.
pub(super) const P384: &[u8] = &[0x06, 5, 0x2b, 0x81, 0x04, 0x00, 0x22];
/// The object identifier of the curve P-521.
pub(super) const P521: &[u8] = &[0x06, 5, 0x2b, 0x81, 0x04, 0x00, 0x23];
/// The value null.
const NULL: &[u8] = &[0x05, 0];

/// A value with its tag and length.
pub(super) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|it| **it == 0).count()..];
    let mut written = vec![tag];
    match (content.len(), u8::try_from(significant.len())) {
        (0..0x80, _) => written.push(content.len().to_be_bytes()[length.len() - 1]),
        (_, Ok(count)) => {
            written.push(0x80 | count);
            written.extend(significant);
        }
        (_, Err(_)) => unreachable!("a length has at most eight bytes"),
    }
    written.extend(content);
    written
}

/// A positive integer.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let significant = &bytes[bytes.iter().take_while(|it| **it == 0).count()..];
    // The first bit is the sign.
    let sign: &[u8] = if significant.first().is_none_or(|it| it & 0x80 != 0) { &[0] } else { &[] };
    value(INTEGER, &[sign, significant])
}

/// A `SubjectPublicKeyInfo` with an RSA key, given as `RSAPublicKey`.
pub(super) fn rsa_public_key_info(key: &[u8]) -> Vec<u8> {
    public_key_info(&[RSA, NULL], key)
}

/// A `SubjectPublicKeyInfo` with a point of a curve.
pub(super) fn ec_public_key_info(curve: &[u8], point: &[u8]) -> Vec<u8> {
    public_key_info(&[EC, curve], point)
}

fn public_key_info(algorithm: &[&[u8]], key: &[u8]) -> Vec<u8> {
    let algorithm = value(SEQUENCE, algorithm);
    value(SEQUENCE, &[&algorithm, &value(BIT_STRING, &[&[0], key])])
}

/// A private key in PKCS#8, from the SEC 1 form.
pub(super) fn ec_private_key_info(curve: &[u8], sec1: &[u8]) -> Vec<u8> {
    let algorithm = value(SEQUENCE, &[EC, curve]);
    value(SEQUENCE, &[&integer(&[0]), &algorithm, &value(OCTET_STRING, &[sec1])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_has_a_long_length() {
        assert_eq!(value(OCTET_STRING, &[&[7; 127]])[..2], [4, 127]);
        assert_eq!(value(OCTET_STRING, &[&[7; 128]])[..3], [4, 0x81, 128]);
        assert_eq!(value(OCTET_STRING, &[&[7; 300]])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn an_integer_is_never_negative() {
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0x7f]), [2, 1, 0x7f]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
    }
}
