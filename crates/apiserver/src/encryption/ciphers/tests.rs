//! Fixed values of Go's crypto packages, which kube-apiserver uses, and round trips.

use super::*;

const PLAINTEXT: &[u8] = br#"{"kind":"Secret","apiVersion":"v1"}"#;
const LOCATION: &str = "/registry/secrets/default/a";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The key 0, 1, 2, ….
fn key(len: u8) -> Vec<u8> {
    (0..len).collect()
}

#[test]
fn values_that_go_has_encrypted_are_read() {
    let cbc = |len| Cipher::AesCbc(AesCbc::new(&key(len)).unwrap());
    let gcm = |len| Cipher::AesGcm(Gcm::new(&key(len)).unwrap());
    let cases = [
        (
            cbc(16),
            "6465666768696a6b6c6d6e6f7071727384dae64f6f36421d0828c8a3d20c4f273b1adaec31449757ae9c76253433d62b7de08c2a25a7e3367695a88b3d30a635",
        ),
        (
            cbc(24),
            "6465666768696a6b6c6d6e6f7071727352efc26e767f4d8852369f65ebadc68c4b4510ced397d393e20ae4d9b02910f126d544c3e1c068a545c4019961e763ed",
        ),
        (
            cbc(32),
            "6465666768696a6b6c6d6e6f7071727344283a8a80a45cba29966b60a5c5bdab29df94c4e216912e2dd214420707bf0d22f689b8d56031faecca2ce85ff274d7",
        ),
        (
            gcm(16),
            "32333435363738393a3b3c3dca1c64a3d29660500b5ff469ba62685aec21df631dbfb78cb36db7c0b6a31483ab9a324b89e8bcde0e28a36d8753893d43aa70",
        ),
        (
            gcm(24),
            "32333435363738393a3b3c3d1d2b8c45b2874fa1f1ca0ec7a0eaaa8bd3af228f8202fabc92530377d27eb1228eb0145b31d7f09f77407ef4ac44de63695eac",
        ),
        (
            gcm(32),
            "32333435363738393a3b3c3dbd7984a9ab58a3d94f548fe529888bda4a917af1e01bc299a27364f69509b9041222b76508805a008d8279ea852be44e3036df",
        ),
    ];
    for (cipher, stored) in cases {
        let opened = cipher.open(&hex(stored), LOCATION).unwrap();
        assert_eq!(opened, PLAINTEXT, "{cipher:?} {stored}");
    }
}

#[test]
fn a_box_of_nacl_is_read() {
    // The test of golang.org/x/crypto/nacl/secretbox.
    let stored = "8442bc313f4626f1359e3b50122b6ce6fe66ddfe7d39d14e637eb4fd5b45beadab55198df6ab5368439792a23c87db70acb6156dc5ef957ac04f6276cf6093b84be77ff0849cc33e34b7254d5a8f65ad";
    let stored = [vec![2; 24], hex(stored)].concat();
    let cipher = Secretbox::new(&[1; 32]).unwrap();
    assert_eq!(cipher.open(&stored).unwrap(), [3; 64]);
}

fn ciphers(key: &[u8]) -> [Cipher; 3] {
    [
        Cipher::AesCbc(AesCbc::new(key).unwrap()),
        Cipher::AesGcm(Gcm::new(key).unwrap()),
        Cipher::Secretbox(Secretbox::new(key).unwrap()),
    ]
}

#[test]
fn every_length_survives_and_no_two_values_are_equal() {
    for cipher in ciphers(&[7; 32]) {
        for len in 0..70 {
            let data = vec![b'a'; len];
            let stored = cipher.seal(b"p:", &data, LOCATION);
            let stored = stored.strip_prefix(b"p:").unwrap();
            assert_eq!(cipher.open(stored, LOCATION).unwrap(), data, "{cipher:?} {len}");
            assert_ne!(cipher.seal(b"", &data, LOCATION), stored, "{cipher:?} {len}");
        }
    }
}

#[test]
fn a_wrong_key_is_an_error() {
    for (ours, theirs) in ciphers(&[7; 32]).iter().zip(&ciphers(&[8; 32])) {
        // The padding of AES-CBC is valid by chance with one of 256 keys.
        let is_error =
            (0..20).any(|_| theirs.open(&ours.seal(b"", PLAINTEXT, LOCATION), LOCATION).is_err());
        assert!(is_error, "{ours:?}");
    }
}

#[test]
fn only_gcm_binds_a_value_to_its_location() {
    let moved = ciphers(&[7; 32]).map(|cipher| {
        let stored = cipher.seal(b"", PLAINTEXT, LOCATION);
        cipher.open(&stored, "/registry/secrets/default/b").is_err()
    });
    assert_eq!(moved, [false, true, false]);
}

#[test]
fn damaged_data_is_an_error_as_in_kube_apiserver() {
    let [cbc, gcm, secretbox] = ciphers(&[7; 32]);
    for cipher in [&cbc, &gcm, &secretbox] {
        assert_eq!(cipher.open(&[0; 5], LOCATION), Err(TOO_SHORT), "{cipher:?}");
    }
    let empty = "invalid PKCS7 data (empty or not padded)";
    assert_eq!(cbc.open(&[0; 16], LOCATION), Err(empty));
    let part = "the stored data is not a multiple of the block size";
    assert_eq!(cbc.open(&[0; 20], LOCATION), Err(part));
    for cipher in [gcm, secretbox] {
        let mut stored = cipher.seal(b"", PLAINTEXT, LOCATION);
        *stored.last_mut().unwrap() ^= 1;
        assert!(cipher.open(&stored, LOCATION).is_err(), "{cipher:?}");
    }
}

#[test]
fn keys_of_other_sizes_are_refused() {
    for len in [0, 15, 17, 31, 33] {
        let key = vec![0; len];
        assert!(AesCbc::new(&key).is_none() && Gcm::new(&key).is_none(), "{len}");
    }
    assert!(Secretbox::new(&[0; 16]).is_none());
}

#[test]
fn keys_are_not_printed() {
    let shown = format!("{:?}", ciphers(b"0123456789abcdef0123456789abcdef"));
    assert_eq!(shown, "[AesCbc, AesGcm, Secretbox]");
}
