//! The documents with which other programs verify service account tokens.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::Method;
use ring::signature::{ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

use super::create_robot_token;
use super::service_account_keys::keys;
use apiserver::auth::authentication::service_account::ServiceAccountSettings;
use apiserver::auth::authentication::token::TokenFile;
use apiserver::{AuthorizerConfig, Config};
use machinery::{Value, json};
use testenv::{Response, TestEnv};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEY_SET: &str = "/openid/v1/jwks";

fn with_uri(settings: ServiceAccountSettings) -> ServiceAccountSettings {
    ServiceAccountSettings { jwks_uri: Some("https://keys.example/jwks".to_owned()), ..settings }
}

async fn plane(change: impl FnOnce(&mut Config)) -> TestEnv {
    TestEnv::builder().config(change).start().await
}

async fn get(plane: &TestEnv, path: &str, accept: &str) -> Response {
    plane.get_as(path, accept).await
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers[name].to_str().unwrap()
}

#[tokio::test]
async fn the_documents_name_the_issuer_and_its_keys() {
    let settings = with_uri(keys(Some("p384.pem"), &["pkcs8.pub", "sec1.pub"]));
    let plane = plane(|config| config.service_accounts = settings).await;
    let configuration = get(&plane, CONFIGURATION, "*/*").await;
    assert_eq!(
        configuration.text(),
        r#"{"issuer":"https://kubernetes.default.svc","jwks_uri":"https://keys.example/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","ES384","RS256"]}"#
    );
    let key_set = get(&plane, KEY_SET, "*/*").await;
    let listed = key_set.value()["keys"].clone();
    let types: Vec<Value> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|it| json!([it["kty"], it["crv"], it["alg"]]))
        .collect();
    let expect =
        json!([["EC", "P-384", "ES384"], ["RSA", null, "RS256"], ["EC", "P-256", "ES256"]]);
    assert_eq!(json!(types), expect);
    let first = r#"{"keys":[{"use":"sig","kty":"EC","kid":"7GMuD0umXmO3G4HHQOEhqDWBcc6V_n14sxEPt3oxicA","crv":"P-384","alg":"ES384","x":""#;
    assert!(key_set.text().starts_with(first), "{}", key_set.text());
    for (response, media) in
        [(configuration, "application/json"), (key_set, "application/jwk-set+json")]
    {
        assert_eq!(header(&response, "content-type"), media);
        assert_eq!(header(&response, "cache-control"), "public, max-age=3600");
        assert!(!response.headers.contains_key("etag"));
    }
    let paths = plane.read("/").await["paths"].clone();
    for path in [CONFIGURATION, KEY_SET] {
        assert!(paths.as_array().unwrap().contains(&json!(path)), "{paths}");
    }
}

/// A program that knows only the key set verifies a token.
async fn verify_with_key_set(signing: &str) {
    let settings = with_uri(keys(Some(signing), &[]));
    let plane = plane(|config| config.service_accounts = settings).await;
    let token = create_robot_token(&plane, &json!({})).await;
    let key = plane.read(KEY_SET).await["keys"][0].clone();
    let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let verified = if key["kty"] == "RSA" {
        let components = ring::signature::RsaPublicKeyComponents { n: bytes("n"), e: bytes("e") };
        components.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature)
    } else {
        let point = [vec![4], bytes("x"), bytes("y")].concat();
        let public = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point);
        public.verify(signed.as_bytes(), &signature)
    };
    assert!(verified.is_ok(), "{signing}");
}

#[tokio::test]
async fn a_token_can_be_verified_with_the_key_set() {
    verify_with_key_set("pkcs1.pem").await;
    verify_with_key_set("sec1-p384.pem").await;
}

#[tokio::test]
async fn the_key_set_is_at_the_address_of_a_server_that_listens() {
    let plane = TestEnv::builder().listen().start().await;
    let uri = plane.read(CONFIGURATION).await["jwks_uri"].as_str().unwrap().to_owned();
    let address = plane.server().address().unwrap();
    assert!(address.ip().is_loopback());
    assert_eq!(uri, format!("https://{address}{KEY_SET}"));
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn other_methods_and_media_types_are_refused() {
    let settings = with_uri(ServiceAccountSettings::default());
    let plane = plane(|config| config.service_accounts = settings).await;
    for path in [CONFIGURATION, KEY_SET] {
        for accept in ["", "*/*", "text/html, */*;q=0.1"] {
            assert_eq!(get(&plane, path, accept).await.code, 200, "{path} {accept}");
        }
        assert_eq!(get(&plane, &format!("{path}/"), "*/*").await.code, 200, "{path}/");
        assert_eq!(get(&plane, &format!("{path}/x"), "*/*").await.code, 404, "{path}/x");
        assert_eq!(get(&plane, path, "application/yaml").await.code, 406, "{path}");
        let posted = plane.send(Method::POST, path, "application/json", "{}").await;
        assert_eq!(posted.code, 405, "{path}");
    }
    let message = get(&plane, KEY_SET, "application/json").await.value()["message"].clone();
    let expect = "406: Not Acceptable\n\nAvailable representations: application/jwk-set+json";
    assert_eq!(message, json!(expect));
}

#[tokio::test]
async fn an_issuer_that_is_no_url_has_no_documents() {
    let settings = ServiceAccountSettings {
        issuers: vec!["plane".to_owned()],
        ..with_uri(ServiceAccountSettings::default())
    };
    let plane = plane(|config| config.service_accounts = settings).await;
    for path in [CONFIGURATION, KEY_SET] {
        assert_eq!(plane.get(path).await.0, 404, "{path}");
    }
    let token = create_robot_token(&plane, &json!({})).await;
    assert_eq!(plane.bearer(&token).get("/apis").await.0, 200);
}

#[tokio::test]
async fn service_accounts_may_read_the_documents_and_others_may_not() {
    let settings = with_uri(ServiceAccountSettings::default());
    let plane = plane(|config| {
        config.service_accounts = settings;
        config.authorizers = vec![AuthorizerConfig::Rbac];
        config.tokens = TokenFile::parse("t-alice,alice,1\n").unwrap();
    })
    .await;
    let token = create_robot_token(&plane, &json!({})).await;
    for path in [CONFIGURATION, KEY_SET] {
        assert_eq!(plane.bearer(&token).get(path).await.0, 200, "{path}");
        assert_eq!(plane.bearer("t-alice").get(path).await.0, 403, "{path}");
        assert_eq!(plane.unauthenticated().get(path).await.0, 403, "{path}");
    }
}
