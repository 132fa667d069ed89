//! Tests of signing and verifying.

use super::*;
use crate::auth::authentication::json_web_token::key_file;

fn claims() -> Claims {
    Claims {
        namespace: "ns".to_owned(),
        name: "robot".to_owned(),
        uid: "1".to_owned(),
        audiences: vec![ISSUER.to_owned()],
        issued: 1000,
        not_before: 1000,
        expires: 2000,
        id: "x".to_owned(),
        ..Claims::default()
    }
}

fn signer() -> TokenSigner {
    TokenSigner::new(ServiceAccountSettings::default()).unwrap()
}

fn refused(why: &str) -> Result<Claims, TokenError> {
    Err(TokenError::Invalid(why.to_owned()))
}

const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";
const NO_KEY: &str = "invalid signature, no keys found";

fn encode(text: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

fn decode(text: &str) -> String {
    String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
}

#[test]
fn a_verified_token_has_the_signed_claims() {
    let signer = signer();
    let token = signer.sign(&claims()).unwrap();
    assert_eq!(signer.verify(&token), Ok(claims()));
    let user = claims().user();
    assert_eq!(user.name, "system:serviceaccount:ns:robot");
    assert!(user.is_in("system:serviceaccounts:ns") && user.is_in("system:authenticated"));
}

#[test]
fn a_token_is_valid_during_its_lifetime() {
    let check = |now, expect: Result<(), &str>| {
        assert_eq!(claims().check_lifetime(now), expect.map_err(str::to_owned), "{now}");
    };
    check(939, Err("service account token is not valid yet"));
    check(940, Ok(()));
    check(2060, Ok(()));
    check(2061, Err("service account token has expired"));
}

#[test]
fn a_token_of_another_plane_is_refused() {
    let foreign = signer().sign(&claims()).unwrap();
    assert_eq!(signer().verify(&foreign), refused(NO_KEY));
}

/// Signs a token, changes header and payload with `change`, keeps the signature, and verifies it.
fn verify_changed(change: impl FnOnce(&mut String, &mut String)) -> Result<Claims, TokenError> {
    let signer = signer();
    let token = signer.sign(&claims()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let (mut header, mut payload) = (decode(parts[0]), decode(parts[1]));
    change(&mut header, &mut payload);
    signer.verify(&format!("{}.{}.{}", encode(&header), encode(&payload), parts[2]))
}

#[test]
fn a_changed_token_is_refused() {
    assert_eq!(verify_changed(|_, _| {}), Ok(claims()));
    let admin = |_: &mut String, payload: &mut String| *payload = payload.replace("robot", "admin");
    assert_eq!(verify_changed(admin), refused(BAD_SIGNATURE));
    let exp = |_: &mut String, payload: &mut String| *payload = payload.replace("2000", "9000");
    assert_eq!(verify_changed(exp), refused(BAD_SIGNATURE));
    for (header, why) in [
        (r#"{"alg":"ES256"}"#, BAD_SIGNATURE),
        (r#"{"alg":"none"}"#, BAD_SIGNATURE),
        ("{}", BAD_SIGNATURE),
        (r#"{"alg":"ES256","kid":"other"}"#, NO_KEY),
        (r#"{"alg":"ES256","crit":["exp"]}"#, BAD_SIGNATURE),
    ] {
        let changed = verify_changed(|it, _| header.clone_into(it));
        assert_eq!(changed, refused(why), "{header}");
    }
}

#[test]
fn text_that_is_no_token_is_unknown() {
    let object = encode("{}");
    for text in ["", ".", "..", "a.b.c", &object, &format!("{object}.{object}.x.y")] {
        assert_eq!(signer().verify(text), Err(TokenError::Unknown), "{text}");
    }
}

/// A token without a signature, or with one of a symmetric algorithm for which a public value was the
/// secret, is refused.
#[test]
fn the_algorithm_of_a_token_must_be_one_of_its_key() {
    let signer = signer();
    let token = signer.sign(&claims()).unwrap();
    let payload = token.split('.').nth(1).unwrap();
    let public = &signer.keys()[0];
    let jwk = serde_json::to_vec(&public.jwk).unwrap();
    for kid in [public.id(), ""] {
        let signed = |alg: &str| {
            let header = json!({"alg": alg, "kid": kid}).to_string();
            format!("{}.{payload}", encode(&header))
        };
        let none = signed("none");
        assert_eq!(signer.verify(&format!("{none}.")), refused(BAD_SIGNATURE));
        let hs256 = signed("HS256");
        for secret in [public.bytes(), &jwk] {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            let tag = ring::hmac::sign(&key, hs256.as_bytes());
            let forged = format!("{hs256}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
            assert_eq!(signer.verify(&forged), refused(BAD_SIGNATURE));
        }
    }
}

#[test]
fn a_token_with_the_key_id_of_an_earlier_version_stays_valid() {
    let signer = signer();
    let token = signer.sign(&claims()).unwrap();
    let payload = decode(token.split('.').nth(1).unwrap());
    let header = json!({"alg": "ES256", "kid": signer.former_key_id, "typ": "JWT"}).to_string();
    // Only the header differs, so the token is signed again as the earlier version did.
    let former = signer.key.sign_with_header(&header, &payload).unwrap();
    assert_eq!(signer.verify(&former), Ok(claims()));
}

#[test]
fn the_key_is_the_same_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || TokenSigner::open(directory.path(), ServiceAccountSettings::default()).unwrap();
    let token = open().sign(&claims()).unwrap();
    assert_eq!(open().verify(&token), Ok(claims()));
}

/// Private keys in each form, with their IDs as openssl computes them.
const KEYS: [(&str, &str); 5] = [
    ("pkcs8", "4Uts89ZF4wjIm3LapQGfOoEjRbGgkxBl8PNSEv0qmLQ"),
    ("pkcs1", "52gUiTsoQ3TOGUiekt36vi3uPYO6-RXtRDeccehWu54"),
    ("sec1", "OzwXdMXrzucfs2faE1S1u3aa5ai2IpteGmcU_Tl0cXQ"),
    ("p384", "7GMuD0umXmO3G4HHQOEhqDWBcc6V_n14sxEPt3oxicA"),
    ("sec1-p384", "-7PQDMzrKRho8Re51gn_67cXGW97jRGjrq1RGFs3gUk"),
];

/// The path of a file in `tests/keys`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

#[test]
fn keys_are_read_in_every_form() {
    for (name, id) in KEYS {
        let key = key_file::read_signing_key(&path(&format!("{name}.pem"))).unwrap();
        for form in ["pem", "pub", "crt"] {
            let read = key_file::read_public_keys(&path(&format!("{name}.{form}"))).unwrap();
            assert_eq!(read, std::slice::from_ref(key.public()), "{name}.{form}");
        }
        assert_eq!(key.public().id(), id, "{name}");
    }
}

#[test]
fn a_token_is_verified_with_its_own_key_only() {
    let names = KEYS.map(|(name, _)| name);
    let signer = |name: &str, keys: Vec<PublicKey>| {
        let key = key_file::read_signing_key(&path(&format!("{name}.pem"))).unwrap();
        let signing_key = Some(Arc::new(key));
        let settings = ServiceAccountSettings { signing_key, keys, ..Default::default() };
        TokenSigner::new(settings).unwrap()
    };
    for name in names {
        let token = signer(name, Vec::new()).sign(&claims()).unwrap();
        let (_, rest) = token.split_once('.').unwrap();
        for other in names {
            let verifier = signer(other, Vec::new());
            let expect = if name == other { Ok(claims()) } else { refused(NO_KEY) };
            assert_eq!(verifier.verify(&token), expect, "{name} {other}");
            // The header names the key of the verifier, and its algorithm or that of the signer.
            let key = &verifier.keys()[0];
            for alg in ["RS256", "ES256", "ES384", "HS256", "none"] {
                let header = json!({"alg": alg, "kid": key.id()}).to_string();
                let forged = format!("{}.{rest}", encode(&header));
                let is_same = header == decode(token.split('.').next().unwrap());
                let expect = if is_same { Ok(claims()) } else { refused(BAD_SIGNATURE) };
                assert_eq!(verifier.verify(&forged), expect, "{name} {other} {alg}");
            }
        }
    }
    // Keys of one bundle file are accepted besides the signing key.
    let bundle = names.map(|it| fs::read_to_string(path(&format!("{it}.pub"))).unwrap()).concat();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bundle");
    fs::write(&file, bundle).unwrap();
    let verifier = signer("sec1", key_file::read_public_keys(&file).unwrap());
    assert_eq!(verifier.keys().len(), names.len());
    for name in names {
        let token = signer(name, Vec::new()).sign(&claims()).unwrap();
        assert_eq!(verifier.verify(&token), Ok(claims()), "{name}");
    }
}

#[test]
fn an_unusable_key_is_an_error_that_says_why() {
    let cause = |name: &str| {
        let error = key_file::read_public_keys(&path(name)).unwrap_err();
        std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string)
    };
    let p521 = "it is on the curve P-521 (ES512), which is not supported: use P-256 or P-384";
    assert_eq!((cause("p521.pem").as_str(), cause("p521.pub").as_str()), (p521, p521));
    assert_eq!(cause("small.pem"), "it cannot be read (TooSmall)");
    assert_eq!(cause("small.pub"), "it has 1024 bits: RSA keys need 2048 to 8192");
    let kind = "it is neither an RSA key nor an EC key on the curve P-256 or P-384";
    assert_eq!(cause("ed.pem"), kind);
    assert!(cause("README.md").ends_with("does not contain a valid RSA or ECDSA public key"));
    let error = key_file::read_signing_key(&path("sec1.pub")).unwrap_err().to_string();
    assert!(error.ends_with("does not contain a valid RSA or ECDSA private key"), "{error}");
}
