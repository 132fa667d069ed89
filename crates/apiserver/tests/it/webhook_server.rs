//! [`WebhookServer`]: an admission webhook over HTTPS in the process of the test.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};

use crate::https::Https;
use machinery::{Value, json};

/// A response: its code and its body.
pub(crate) type Answer = (u16, Bytes);

/// A call of the webhook.
#[derive(Debug, Clone)]
pub(crate) struct WebhookCall {
    /// The path with its query.
    pub(crate) target: String,
    pub(crate) user_agent: String,
    pub(crate) review: Value,
}

/// See the [module documentation](self).
pub(crate) struct WebhookServer {
    https: Https,
    calls: Arc<Mutex<Vec<WebhookCall>>>,
}

impl WebhookServer {
    /// Starts a webhook whose responses `behavior` computes.
    pub(crate) async fn start<F, A>(behavior: F) -> Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&calls);
        let https = Https::start("hook.default.svc", move |request: Request<Bytes>| {
            let target = request.uri().path_and_query().unwrap().to_string();
            let user_agent = request.headers().get("user-agent");
            let user_agent = user_agent.map_or("", |it| it.to_str().unwrap()).to_owned();
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let call = WebhookCall { target, user_agent, review: review.clone() };
            recorded.lock().unwrap().push(call);
            let answer = behavior(review);
            async move {
                let (code, body) = answer.await;
                Response::builder().status(code).body(body).unwrap()
            }
        })
        .await;
        Self { https, calls }
    }

    /// Starts a webhook with an immediate response.
    pub(crate) async fn answering(
        response: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |review| {
            std::future::ready(answer(&review, &response(&review["request"])))
        })
        .await
    }

    /// Starts a webhook that sends a patch.
    pub(crate) async fn patching(patch: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::answering(move |request| patched(&patch(request))).await
    }

    /// Starts a webhook that never responds.
    pub(crate) async fn hanging() -> Self {
        Self::start(|_| std::future::pending()).await
    }

    /// The `clientConfig` of the webhook.
    pub(crate) fn client_config(&self) -> Value {
        let url = format!("https://{}/hook", self.https.address);
        json!({"url": url, "caBundle": self.https.ca_bundle()})
    }

    /// A kubeconfig of the webhook, with the token `of-the-server`.
    pub(crate) fn kubeconfig(&self) -> String {
        let config = self.client_config();
        let kubeconfig = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": config["url"],
                "certificate-authority-data": config["caBundle"]}}],
            "users": [{"name": "u", "user": {"token": "of-the-server"}}],
        });
        kubeconfig.to_string()
    }

    /// The `clientConfig` with the service `hook` in the default namespace.
    pub(crate) fn service_config(&self) -> Value {
        let service = json!({"namespace": "default", "name": "hook", "path": "/behind"});
        json!({"service": service, "caBundle": self.https.ca_bundle()})
    }

    /// Names another port in configurations, where nobody listens.
    pub(crate) fn set_port(&mut self, port: u16) {
        self.https.address.set_port(port);
    }

    pub(crate) fn port(&self) -> u16 {
        self.https.address.port()
    }

    /// A webhook entry for config maps with changed fields.
    pub(crate) fn hook(&self, name: &str, changes: &Value) -> Value {
        let mut hook = json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": self.client_config(),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}],
        });
        for (field, value) in changes.as_object().unwrap() {
            hook[field] = value.clone();
        }
        hook
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<WebhookCall> {
        self.calls.lock().unwrap().clone()
    }

    /// Waits until there were `count` calls.
    pub(crate) async fn until_called(&self, count: usize) {
        while self.calls.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
    }

    /// The names of the objects in the calls.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |call: WebhookCall| call.review["request"]["name"].as_str().unwrap().to_owned();
        self.calls().into_iter().map(name).collect()
    }
}

/// A response in the version of the review, v1 or v1beta1.
pub(crate) fn answer(review: &Value, response: &Value) -> Answer {
    let mut response = response.clone();
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    let answer = json!({
        "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response,
    });
    (200, answer.to_string().into())
}

/// A response with a patch.
pub(crate) fn patched(patch: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
}
