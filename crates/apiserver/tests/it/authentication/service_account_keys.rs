//! Keys, issuers, audiences and lifetimes of service account tokens, and attacks on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::{ACCOUNTS, create_robot_token};
use apiserver::auth::authentication::json_web_token::key_file;
use apiserver::auth::authentication::service_account::{ISSUER, ServiceAccountSettings};
use machinery::{Value, json};
use testenv::TestEnv;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";

fn key(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys").join(name)
}

/// A plane with the same uids as every other that this function returns, so that only the keys tell
/// their tokens apart.
async fn plane(settings: ServiceAccountSettings) -> TestEnv {
    TestEnv::builder().config(|config| config.service_accounts = settings).start().await
}

/// Settings with a signing key of `tests/keys`, and further accepted ones.
pub(super) fn keys(signing: Option<&str>, accepted: &[&str]) -> ServiceAccountSettings {
    let signing_key = signing.map(|it| Arc::new(key_file::read_signing_key(&key(it)).unwrap()));
    let read = |name: &&str| key_file::read_public_keys(&key(name)).unwrap();
    let keys = accepted.iter().flat_map(read).collect();
    ServiceAccountSettings { signing_key, keys, ..ServiceAccountSettings::default() }
}

/// The code of a request with this token, and the error of its review.
async fn present(plane: &TestEnv, token: &str) -> (u16, Value) {
    // The review comes first: it waits until the server has observed the latest deletions.
    let review = plane.create(TOKEN_REVIEWS, &json!({"spec": {"token": token}})).await;
    let code = plane.bearer(token).get("/apis").await.0;
    let status = &review["status"];
    assert_eq!(status["authenticated"] == json!(true), code == 200, "{status}");
    (code, status["error"].clone())
}

fn decode(part: &str) -> Value {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn payload(token: &str) -> Value {
    decode(token.split('.').nth(1).unwrap())
}

#[tokio::test]
async fn a_token_of_a_configured_key_is_accepted_and_one_of_another_plane_is_not() {
    let rsa = plane(keys(Some("pkcs1.pem"), &[])).await;
    let token = create_robot_token(&rsa, &json!({})).await;
    let header = decode(token.split('.').next().unwrap());
    let id = "52gUiTsoQ3TOGUiekt36vi3uPYO6-RXtRDeccehWu54";
    assert_eq!(header, json!({"alg": "RS256", "kid": id}));
    assert_eq!(present(&rsa, &token).await, (200, Value::Null));
    let refused = json!("[invalid bearer token, invalid signature, no keys found]");
    for (settings, expect) in [
        (keys(None, &["pkcs1.crt"]), (200, Value::Null)),
        (keys(Some("p384.pem"), &["sec1.pub", "pkcs1.pub"]), (200, Value::Null)),
        (keys(Some("p384.pem"), &["sec1.pub"]), (401, refused.clone())),
        (keys(None, &[]), (401, refused.clone())),
    ] {
        let other = plane(settings).await;
        let own = create_robot_token(&other, &json!({})).await;
        assert_eq!(payload(&own)["kubernetes.io"], payload(&token)["kubernetes.io"]);
        assert_eq!(present(&other, &own).await, (200, Value::Null));
        assert_eq!(present(&other, &token).await, expect);
    }
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let plane = plane(keys(Some("pkcs8.pem"), &["sec1.pub"])).await;
    let token = create_robot_token(&plane, &json!({})).await;
    let parts: Vec<&str> = token.split('.').collect();
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let (header, mut claims) = (decode(parts[0]), payload(&token));
    claims["kubernetes.io"]["serviceaccount"]["name"] = json!("default");
    let altered = encode(&claims);
    let [rsa, ec] = ["pkcs8.pub", "sec1.pub"]
        .map(|it| key_file::read_public_keys(&key(it)).unwrap()[0].id().to_owned());
    assert_eq!(header["kid"], json!(rsa));
    let with = |alg: &str, kid: Option<&str>| match kid {
        Some(kid) => encode(&json!({"alg": alg, "kid": kid})),
        None => encode(&json!({"alg": alg})),
    };
    let secret = std::fs::read(key("pkcs8.pub")).unwrap();
    let symmetric = |kid| {
        let signed = format!("{}.{}", with("HS256", kid), parts[1]);
        let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&hmac, signed.as_bytes());
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
    };
    let forged =
        |header: String, payload: &str, signature: &str| format!("{header}.{payload}.{signature}");
    for (name, token) in [
        ("altered payload", forged(parts[0].to_owned(), &altered, parts[2])),
        ("no signature", forged(parts[0].to_owned(), parts[1], "")),
        ("alg none", forged(with("none", Some(&rsa)), parts[1], "")),
        ("alg none without kid", forged(with("none", None), parts[1], "")),
        ("public key as secret", symmetric(Some(rsa.as_str()))),
        ("public key as secret without kid", symmetric(None)),
        ("EC algorithm with the RSA key", forged(with("ES256", Some(&rsa)), parts[1], parts[2])),
        ("RSA algorithm with the EC key", forged(with("RS256", Some(&ec)), parts[1], parts[2])),
        ("other header without kid", forged(with("RS256", None), parts[1], parts[2])),
    ] {
        let error = "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]";
        assert_eq!(present(&plane, &token).await, (401, json!(error)), "{name}");
    }
    assert_eq!(present(&plane, &token).await, (200, Value::Null));
}

#[tokio::test]
async fn a_token_without_a_key_id_is_verified_with_all_keys() {
    let plane = plane(keys(None, &["pkcs8.pub"])).await;
    let token = create_robot_token(&plane, &json!({})).await;
    let signing = std::fs::read_to_string(key("pkcs8.pem")).unwrap();
    let der = signing.lines().filter(|it| !it.starts_with('-')).collect::<String>();
    let der = base64::prelude::BASE64_STANDARD.decode(der).unwrap();
    let pair = ring::signature::RsaKeyPair::from_pkcs8(&der).unwrap();
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
    let signed = format!("{header}.{}", token.split('.').nth(1).unwrap());
    let mut signature = vec![0; pair.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    let algorithm = &ring::signature::RSA_PKCS1_SHA256;
    pair.sign(algorithm, &random, signed.as_bytes(), &mut signature).unwrap();
    let without_id = format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
    assert_eq!(present(&plane, &without_id).await, (200, Value::Null));
}

#[tokio::test]
async fn the_first_issuer_signs_and_all_are_accepted() {
    let with_issuers = |issuers: &[&str]| ServiceAccountSettings {
        issuers: issuers.iter().map(|it| (*it).to_owned()).collect(),
        api_audiences: vec!["api".to_owned()],
        ..keys(Some("sec1.pem"), &[])
    };
    let old = plane(with_issuers(&["https://old"])).await;
    let token = create_robot_token(&old, &json!({})).await;
    assert_eq!(payload(&token)["iss"], json!("https://old"));
    assert_eq!(payload(&token)["aud"], json!(["api"]));
    let both = plane(with_issuers(&["https://new", "https://old"])).await;
    let new = create_robot_token(&both, &json!({})).await;
    assert_eq!(payload(&new)["iss"], json!("https://new"));
    assert_eq!(present(&both, &token).await, (200, Value::Null));
    assert_eq!(present(&old, &new).await, (401, json!("invalid bearer token")));
}

#[tokio::test]
async fn a_token_for_another_audience_is_refused_before_its_objects_are_looked_up() {
    let plane = plane(ServiceAccountSettings::default()).await;
    let token = create_robot_token(&plane, &json!({"spec": {"audiences": ["vault", "x"]}})).await;
    let error = format!(
        r#"[invalid bearer token, token audiences ["vault" "x"] is invalid for the target audiences ["{ISSUER}"]]"#
    );
    assert_eq!(present(&plane, &token).await, (401, json!(error)));
    let review = json!({"spec": {"token": token, "audiences": ["y", "x", "vault"]}});
    let status = plane.create(TOKEN_REVIEWS, &review).await["status"].clone();
    assert_eq!(status["audiences"], json!(["x", "vault"]));
    plane.delete(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(present(&plane, &token).await, (401, json!(error)));
}

#[tokio::test]
async fn a_long_lifetime_is_shortened_with_a_warning() {
    let max_expiration = Some(Duration::from_hours(2));
    let plane = plane(ServiceAccountSettings { max_expiration, ..Default::default() }).await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let path = format!("{ACCOUNTS}/robot/token");
    let post = async |seconds: i64| {
        let request = json!({"spec": {"expirationSeconds": seconds}}).to_string();
        plane.send(http::Method::POST, &path, "application/json", request).await
    };
    let response = post(86400).await;
    let warning = "requested expiration of 86400 seconds shortened to 7200 seconds";
    assert_eq!(response.warnings(), [warning]);
    let answer = response.value();
    assert_eq!(answer["spec"]["expirationSeconds"], json!(7200));
    let claims = payload(answer["status"]["token"].as_str().unwrap());
    let lifetime = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(lifetime, 7200);
    assert!(post(7200).await.warnings().is_empty());
}

/// Creates a pod of the account `robot`, and returns the lifetime of a token that is mounted into it.
async fn mounted_lifetime(settings: ServiceAccountSettings) -> i64 {
    let plane = plane(settings).await;
    create_robot_token(&plane, &json!({})).await;
    create_pod(&plane).await;
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "p"});
    let spec = json!({"expirationSeconds": 3607, "boundObjectRef": reference});
    let answer = plane.create(&format!("{ACCOUNTS}/robot/token"), &json!({"spec": spec})).await;
    let claims = payload(answer["status"]["token"].as_str().unwrap());
    claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap()
}

async fn create_pod(plane: &TestEnv) {
    let spec = json!({"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    plane.create(PODS, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
}

#[tokio::test]
async fn the_extension_of_mounted_tokens_can_be_turned_off() {
    assert_eq!(mounted_lifetime(ServiceAccountSettings::default()).await, 365 * 24 * 3600);
    let off = ServiceAccountSettings { extends_expiration: false, ..Default::default() };
    assert_eq!(mounted_lifetime(off).await, 3607);
}

#[tokio::test]
async fn deleting_the_bound_object_revokes_a_token() {
    let plane = plane(ServiceAccountSettings::default()).await;
    plane.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    create_pod(&plane).await;
    plane.create(SECRETS, &json!({"metadata": {"name": "s"}})).await;
    plane.create(NODES, &json!({"metadata": {"name": "n"}})).await;
    for (kind, name, path) in [
        ("Pod", "p", format!("{PODS}/p?gracePeriodSeconds=0")),
        ("Secret", "s", format!("{SECRETS}/s")),
        ("Node", "n", format!("{NODES}/n")),
    ] {
        let reference = json!({"kind": kind, "apiVersion": "v1", "name": name});
        let request = json!({"spec": {"boundObjectRef": reference}});
        let answer = plane.create(&format!("{ACCOUNTS}/robot/token"), &request).await;
        let token = answer["status"]["token"].as_str().unwrap();
        assert_eq!(present(&plane, token).await, (200, Value::Null), "{kind}");
        plane.delete(&path).await;
        let error = "[invalid bearer token, service account token has been invalidated]";
        assert_eq!(present(&plane, token).await, (401, json!(error)), "{kind}");
    }
}

#[tokio::test]
async fn settings_that_are_not_valid_are_an_error_at_start() {
    let issuers = vec!["a".to_owned(), "a".to_owned()];
    let settings = ServiceAccountSettings { issuers, ..Default::default() };
    let builder = TestEnv::builder().config(|config| config.service_accounts = settings);
    let error = builder.try_start().await.err().unwrap();
    let causes: Vec<String> = keel::causes(&error).map(ToString::to_string).collect();
    let last = causes.last().unwrap();
    assert_eq!(last, r#"service-account-issuer "a" is already specified"#);
}
