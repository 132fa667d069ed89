//! [`TestIssuer`]: an issuer of tokens over HTTPS in the process of the test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::https::{Https, json_response};
use apiserver::auth::authentication::json_web_token::{SigningKey, key_file};
use apiserver::auth::authentication::oidc::configuration::AuthenticationConfiguration;
use apiserver::auth::authentication::oidc::{ALGORITHMS, OidcSettings};
use machinery::{Value, json};
use testenv::TestEnv;

/// The audience of tokens.
pub(super) const AUDIENCE: &str = "sampan";

/// See the [module documentation](self). Its keys are the files of `tests/keys`, whose names are their
/// IDs.
pub(super) struct TestIssuer {
    https: Https,
    state: Arc<State>,
    keys: BTreeMap<&'static str, SigningKey>,
}

#[derive(Default)]
struct State {
    answers: Mutex<Answers>,
    fetches: AtomicUsize,
    documents: AtomicUsize,
}

#[derive(Default)]
struct Answers {
    is_down: bool,
    document: Option<Value>,
    keys: Vec<Value>,
}

impl TestIssuer {
    /// Starts an issuer that publishes these keys.
    pub(super) async fn start(published: &[&'static str]) -> Self {
        let state = Arc::new(State::default());
        let serving = Arc::clone(&state);
        let https = Https::start("issuer.example", move |request| {
            let host = request.uri().authority().map(ToString::to_string);
            let host =
                host.unwrap_or_else(|| request.headers()["host"].to_str().unwrap().to_owned());
            let answer = serving.answer(request.uri().path(), &host);
            std::future::ready(answer)
        })
        .await;
        let read = |name: &'static str| {
            let path = format!("{}/tests/keys/{name}.pem", env!("CARGO_MANIFEST_DIR"));
            (name, key_file::read_signing_key(path.as_ref()).unwrap())
        };
        let keys = ["pkcs8", "sec1", "p384"].into_iter().map(read).collect();
        let issuer = Self { https, state, keys };
        issuer.publish(published);
        issuer
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}", self.https.address)
    }

    /// Replaces the published keys.
    pub(super) fn publish(&self, names: &[&'static str]) {
        let jwk = |name: &&'static str| {
            let mut jwk = serde_json::to_value(&self.keys[name].public().jwk).unwrap();
            jwk["kid"] = (*name).into();
            jwk
        };
        self.state.answers.lock().unwrap().keys = names.iter().map(jwk).collect();
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.state.answers.lock().unwrap().is_down = is_down;
    }

    /// Replaces the document.
    pub(super) fn set_document(&self, document: Value) {
        self.state.answers.lock().unwrap().document = Some(document);
    }

    /// The number of fetches of keys.
    pub(super) fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }

    /// The number of requests for the document.
    pub(super) fn documents(&self) -> usize {
        self.state.documents.load(Ordering::SeqCst)
    }

    /// The settings of a plane that accepts tokens for [`AUDIENCE`], with the prefix `oidc:`. `change`
    /// replaces fields of the issuer.
    pub(super) fn settings(&self, change: &Value) -> OidcSettings {
        let configuration = AuthenticationConfiguration {
            jwt: vec![serde_json::from_value(self.configuration(change)).unwrap()],
            ..AuthenticationConfiguration::default()
        };
        let algorithms = ALGORITHMS.map(ToOwned::to_owned).to_vec();
        OidcSettings { configuration, algorithms, file: None }
    }

    /// An element of `jwt` in a configuration.
    pub(super) fn configuration(&self, change: &Value) -> Value {
        let mut jwt = json!({
            "issuer": {"url": self.url(), "audiences": [AUDIENCE],
                "certificateAuthority": self.https.authority},
            "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"},
                "groups": {"claim": "groups", "prefix": "oidc:"}},
        });
        for (name, value) in change.as_object().unwrap() {
            match (&mut jwt[name], value) {
                (Value::Object(target), Value::Object(fields)) => target.extend(fields.clone()),
                (target, value) => *target = value.clone(),
            }
        }
        jwt
    }

    /// Starts a plane that has read the document of the issuer.
    pub(super) async fn plane(&self, change: &Value) -> TestEnv {
        let plane = self.plane_without_waiting(change).await;
        let garbage = self.token(&plane, "sec1", &json!({"sub": 1, "exp": i64::from(u32::MAX)}));
        loop {
            let error = super::error(&plane, &garbage).await;
            if !error.contains("not initialized") {
                break;
            }
            tokio::task::yield_now().await;
        }
        plane
    }

    pub(super) async fn plane_without_waiting(&self, change: &Value) -> TestEnv {
        let settings = self.settings(change);
        TestEnv::builder().config(|config| config.oidc = Some(settings)).start().await
    }

    /// A token of alice with other claims.
    pub(super) fn token(&self, plane: &TestEnv, key: &str, claims: &Value) -> String {
        let header = json!({"alg": self.keys[key].public().jwk.alg, "kid": key});
        self.token_with_header(plane, key, &header, claims)
    }

    pub(super) fn token_with_header(
        &self,
        plane: &TestEnv,
        key: &str,
        header: &Value,
        claims: &Value,
    ) -> String {
        let now = plane.clock().now().seconds();
        let mut payload =
            json!({"iss": self.url(), "aud": AUDIENCE, "sub": "alice", "exp": now + 3600});
        for (name, value) in claims.as_object().unwrap() {
            payload[name] = value.clone();
        }
        self.keys[key].sign_with_header(&header.to_string(), &payload.to_string()).unwrap()
    }
}

impl State {
    fn answer(&self, path: &str, host: &str) -> http::Response<bytes::Bytes> {
        let answers = self.answers.lock().unwrap();
        let is_document = path == "/.well-known/openid-configuration";
        let count = if is_document { &self.documents } else { &self.fetches };
        count.fetch_add(1, Ordering::SeqCst);
        if answers.is_down {
            return json_response(503, &json!({}));
        }
        if !is_document {
            return json_response(200, &json!({"keys": answers.keys}));
        }
        let url = format!("https://{host}");
        let document = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        json_response(200, answers.document.as_ref().unwrap_or(&document))
    }
}
