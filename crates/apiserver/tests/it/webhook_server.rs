//! [`WebhookServer`]: a real webhook, over HTTPS, in the test's own process.

use apiserver::certificates::Authority;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use keel::{Clock, Tasks};
use machinery::{Value, json};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// An answer: its code and its body.
pub(crate) type Answer = (u16, Bytes);

type Behavior = dyn Fn(Value) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync;

/// What was asked: the path with its query, and the review.
pub(crate) type Asked = (String, Value);

/// See the [module documentation](self). It is gone when it is dropped.
pub(crate) struct WebhookServer {
    address: SocketAddr,
    bundle: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    tasks: Tasks,
}

impl WebhookServer {
    /// One that answers every review with what `behavior` makes of its request.
    pub(crate) async fn start<F, A>(behavior: F) -> Self
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let authority = Authority::new(Clock::system().now()).unwrap();
        let tls = tls(&authority);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let behavior: Arc<Behavior> = Arc::new(move |review| Box::pin(behavior(review)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let tasks = Tasks::new();
        let accepting = accept(listener, tls, behavior, Arc::clone(&asked), tasks.clone());
        tasks.spawn("webhook", accepting);
        Self { address, bundle: STANDARD.encode(authority.certificate()), asked, tasks }
    }

    /// One that answers at once with a response.
    pub(crate) async fn answering(
        response: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |review| {
            std::future::ready(answer(&review, &response(&review["request"])))
        })
        .await
    }

    /// One that sends a patch.
    pub(crate) async fn patching(patch: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::answering(move |request| patched(&patch(request))).await
    }

    /// One that never answers.
    pub(crate) async fn hanging() -> Self {
        Self::start(|_| std::future::pending()).await
    }

    /// How to reach it, as `clientConfig`.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://{}/hook", self.address), "caBundle": self.bundle})
    }

    /// The same through a service, `hook` in the default namespace.
    pub(crate) fn service_config(&self) -> Value {
        let service = json!({"namespace": "default", "name": "hook", "path": "/behind"});
        json!({"service": service, "caBundle": self.bundle})
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A webhook with its usual settings, about config maps, with some changed.
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

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The names of the objects that it was asked about.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |(_, review): Asked| review["request"]["name"].as_str().unwrap().to_owned();
        self.asked().into_iter().map(name).collect()
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        self.tasks.ask_to_stop();
    }
}

/// An answer in v1 or v1beta1, as it was asked.
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

fn tls(authority: &Authority) -> TlsAcceptor {
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST)];
    let names = ["localhost", "hook.default.svc"];
    let certified = authority.serving(&names, &loopback, Clock::system().now()).unwrap();
    let chain = CertificateDer::pem_slice_iter(certified.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    behavior: Arc<Behavior>,
    asked: Arc<Mutex<Vec<Asked>>>,
    tasks: Tasks,
) {
    let stop = tasks.shutdown();
    tokio::pin!(stop);
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.unwrap(),
            () = &mut stop => return,
        };
        let served = serve(stream, tls.clone(), Arc::clone(&behavior), Arc::clone(&asked));
        let stop = tasks.shutdown();
        tasks.spawn("webhook connection", async move {
            tokio::select! {
                () = served => {}
                () = stop => {}
            }
        });
    }
}

async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    behavior: Arc<Behavior>,
    asked: Arc<Mutex<Vec<Asked>>>,
) {
    let Ok(stream) = tls.accept(stream).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let (behavior, asked) = (Arc::clone(&behavior), Arc::clone(&asked));
        async move {
            let target = request.uri().path_and_query().unwrap().to_string();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review: Value = serde_json::from_slice(&body).unwrap();
            asked.lock().unwrap().push((target, review.clone()));
            let (code, body) = behavior(review).await;
            let response = Response::builder().status(code).body(Full::new(body)).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    // Whoever asked may have given up meanwhile.
    let _ =
        Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}
