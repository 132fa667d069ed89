//! Certificates: attacks with client certificates, serving certificates by name, and rotation without a
//! restart.

mod attacks;
mod rotation;
mod serving;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, HandshakeKind};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use keel::{Clock, Tasks};
use machinery::Value;
use testenv::{TestEnv, TestEnvBuilder};
use tls::{Certified, Trust};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The interval at which the server reads files.
const INTERVAL: Duration = Duration::from_secs(5);

/// A plane that listens, with a clock that starts at the present time of the clients.
fn builder() -> TestEnvBuilder {
    TestEnv::builder().clock(Clock::manual(Clock::system().now())).listen()
}

/// An authority of the test.
struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl TestAuthority {
    fn new(name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// An intermediate authority.
    fn intermediate(&self, name: &str) -> Self {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    fn sign(&self, params: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { certificate, key: key.serialize_pem() }
    }

    /// The certificate of a server with these names.
    fn serving(&self, names: &[&str]) -> Certified {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        self.sign(&CertificateParams::new(names).unwrap())
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = client_params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages.clear();
    params
}

/// The parameters of the client certificate of a user.
fn client_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

/// Writes a certificate and its key to `name.crt` and `name.key`.
fn write(directory: &Path, name: &str, certified: &Certified) {
    std::fs::write(directory.join(format!("{name}.crt")), &certified.certificate).unwrap();
    std::fs::write(directory.join(format!("{name}.key")), &certified.key).unwrap();
}

/// A connection to a plane.
struct Connection {
    sender: SendRequest<Full<bytes::Bytes>>,
    /// The certificates of the server.
    chain: Vec<CertificateDer<'static>>,
    /// Whether the connection has resumed the session of another one.
    is_resumed: bool,
}

impl Connection {
    /// The name of the user of this connection, the code of a refusal, or None if the connection was
    /// closed.
    async fn user(&mut self) -> Option<Result<String, u16>> {
        self.user_with(&[]).await
    }

    /// The same of a request with further headers.
    async fn user_with(&mut self, headers: &[(&str, &str)]) -> Option<Result<String, u16>> {
        let (code, user) = self.user_info(headers).await?;
        let name = user["username"].as_str().map(str::to_owned);
        Some(if code == 201 { Ok(name.unwrap()) } else { Err(code) })
    }

    /// The user of this connection with all attributes, and the code of the response.
    async fn user_info(&mut self, headers: &[(&str, &str)]) -> Option<(u16, Value)> {
        let mut request = Request::post(REVIEWS)
            .header("host", "localhost")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from("{}")).unwrap();
        let response = self.sender.send_request(request).await.ok()?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        Some((code, review["status"]["userInfo"].clone()))
    }

    fn presents(&self, certified: &Certified) -> bool {
        self.chain[0] == CertificateDer::from_pem_slice(certified.certificate.as_bytes()).unwrap()
    }
}

/// Connects to a plane as `host`; None if one side refuses the handshake. The key of the client is not
/// checked.
async fn connect_as(
    plane: &TestEnv,
    host: &str,
    trust: &Trust,
    client: Option<&Certified>,
) -> Option<Connection> {
    let mut config = tls::client_config(trust, None).unwrap();
    if let Some(client) = client {
        present(&mut config, client);
    }
    connect_with(plane, host, config.into()).await
}

/// Connects to a plane as `host` with these settings, see [`connect_as`].
async fn connect_with(
    plane: &TestEnv,
    host: &str,
    config: Arc<ClientConfig>,
) -> Option<Connection> {
    let stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let stream = TlsConnector::from(config).connect(name, stream).await.ok()?;
    let is_resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
    let chain = stream.get_ref().1.peer_certificates().unwrap();
    let chain = chain.iter().map(|it| it.clone().into_owned()).collect();
    let (sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let tasks = Tasks::new();
    tasks.spawn("connection", async move {
        let _ = connection.await;
    });
    Some(Connection { sender, chain, is_resumed })
}

fn present(config: &mut ClientConfig, client: &Certified) {
    let chain = CertificateDer::pem_slice_iter(client.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let key = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    config.client_auth_cert_resolver = Arc::new(key);
}

/// Connects to a plane whose authority is trusted.
async fn connect(plane: &TestEnv, client: Option<&Certified>) -> Option<Connection> {
    let trust = Trust::CaBundle(plane.server().authority().into());
    connect_as(plane, "localhost", &trust, client).await
}

/// The user of a new connection with this certificate; None if it was refused.
async fn user(plane: &TestEnv, client: Option<&Certified>) -> Option<Result<String, u16>> {
    connect(plane, client).await?.user().await
}

/// Advances the clock until `condition` holds.
async fn eventually(plane: &TestEnv, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..50 {
        if condition().await {
            return;
        }
        plane.advance(INTERVAL);
        tokio::task::yield_now().await;
    }
    panic!("never: {what}");
}
