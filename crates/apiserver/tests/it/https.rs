//! [`Https`]: an HTTPS server in the test, which the plane under test calls.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use apiserver::certificates::Authority;
use keel::{Clock, Tasks};
use machinery::{Value, json};
use tls::Certified;

/// See the [module documentation](self). The server ends with the test.
pub(crate) struct Https {
    pub(crate) address: SocketAddr,
    /// The authority of its certificate, in PEM.
    pub(crate) authority: String,
}

impl Https {
    /// Starts a server whose responses `answer` computes; its certificate is for `name`, localhost
    /// and 127.0.0.1.
    pub(crate) async fn start<F, R>(name: &str, answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let (certified, bundle) = issue(name);
        Self::start_with_certificate(&certified.certificate, &certified.key, &bundle, answer).await
    }

    /// Starts a server that refuses connections without a client certificate of `clients`, an
    /// authority in PEM.
    pub(crate) async fn start_for_clients<F, R>(name: &str, clients: &str, answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let (certified, bundle) = issue(name);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let verifier = verifier.build().unwrap();
        let config = server_config(&certified.certificate, &certified.key, verifier);
        Self::start_with_config(config, &bundle, answer).await
    }

    /// Starts a server with a given certificate, all in PEM; its callers trust `authority`.
    pub(crate) async fn start_with_certificate<F, R>(
        certificate: &str,
        key: &str,
        authority: &str,
        answer: F,
    ) -> Self
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let config = server_config(certificate, key, WebPkiClientVerifier::no_client_auth());
        Self::start_with_config(config, authority, answer).await
    }

    async fn start_with_config<F, R>(config: ServerConfig, authority: &str, answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
        R: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = Tasks::new();
        let accepting = accept(tasks.clone(), listener, tls, Arc::new(answer));
        tasks.spawn("accept", accepting);
        Self { address, authority: authority.to_owned() }
    }

    /// The authority as the `caBundle` of a configuration.
    pub(crate) fn ca_bundle(&self) -> String {
        use base64::Engine;
        base64::prelude::BASE64_STANDARD.encode(&self.authority)
    }

    /// A service for this server: of type `ExternalName`, since endpoints cannot have loopback
    /// addresses.
    pub(crate) fn service(name: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        })
    }

    /// The reference to that service in configurations.
    pub(crate) fn service_reference(&self, name: &str) -> Value {
        json!({"namespace": "default", "name": name, "port": self.address.port()})
    }
}

/// A certificate for `name`, localhost and 127.0.0.1, and its authority.
fn issue(name: &str) -> (Certified, String) {
    let now = Clock::system().now();
    let authority = Authority::new(now).unwrap();
    let certified = authority.serving(&[name, "localhost"], &[[127, 0, 0, 1].into()], now).unwrap();
    (certified, authority.certificate().to_owned())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn server_config(
    certificate: &str,
    key: &str,
    verifier: Arc<dyn ClientCertVerifier>,
) -> ServerConfig {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

async fn accept<F, R>(tasks: Tasks, listener: TcpListener, tls: TlsAcceptor, answer: Arc<F>)
where
    F: Fn(Request<Bytes>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Bytes>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, answer) = (tls.clone(), Arc::clone(&answer));
        tasks.spawn("connection", async move {
            // A client that does not trust the certificate closes the connection, as in some tests.
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = Arc::clone(&answer);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap_or_default().to_bytes();
                    let response = answer(Request::from_parts(head, body)).await;
                    let abort = response.extensions().get::<AbortAfterBody>().cloned();
                    Ok::<_, Infallible>(response.map(|body| response_body(body, abort)))
                }
            });
            let builder = Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An extension of a response: after the body, the response fails as soon as this is notified.
#[derive(Clone, Default)]
pub(crate) struct AbortAfterBody(pub(crate) Arc<Notify>);

/// The frames of a response body.
fn response_body(body: Bytes, abort: Option<AbortAfterBody>) -> UnsyncBoxBody<Bytes, io::Error> {
    let Some(AbortAfterBody(abort)) = abort else {
        return Full::new(body).map_err(|never| match never {}).boxed_unsync();
    };
    let broken = async move {
        abort.notified().await;
        Err(io::ErrorKind::ConnectionReset.into())
    };
    let whole = stream::iter([Ok(Frame::data(body))]);
    StreamBody::new(whole.chain(stream::once(broken))).boxed_unsync()
}

/// A response in JSON.
pub(crate) fn json_response(code: u16, body: &Value) -> Response<Bytes> {
    let answer = Response::builder().status(code).header("content-type", "application/json");
    answer.body(body.to_string().into()).unwrap()
}
