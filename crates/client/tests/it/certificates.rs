//! Servers whose own certificate is the certificate authority of the client, as in some kubeconfigs.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use client::config::{Config, connect};
use keel::{Clock, Tasks};

/// A server with a certificate for these names that it has signed itself as an authority, and that
/// certificate.
async fn server(names: &[&str]) -> (SocketAddr, Vec<u8>) {
    let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    Tasks::new().spawn("server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the server hangs up.
            let Ok(stream) = tls.accept(stream).await else { continue };
            let service = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"here"))))
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    });
    (address, certificate.to_vec())
}

async fn get_version(address: SocketAddr, root: Vec<u8>) -> Result<String, kube_client::Error> {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![root]);
    let client = connect(config, &Clock::system()).unwrap();
    client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn a_server_is_trusted_by_its_own_certificate() {
    let (address, certificate) = server(&["127.0.0.1"]).await;
    assert_eq!(get_version(address, certificate).await.unwrap(), "here");
}

#[tokio::test]
async fn a_certificate_for_another_name_or_of_another_ca_is_refused() {
    let (address, certificate) = server(&["127.0.0.2"]).await;
    let failed = get_version(address, certificate).await.unwrap_err();
    let mut message = failed.to_string();
    let mut cause = failed.source();
    while let Some(it) = cause {
        message = format!("{message}: {it}");
        cause = it.source();
    }
    assert!(message.contains("certificate is valid for 127.0.0.2, not 127.0.0.1"), "{message}");
    let (_, other) = server(&["127.0.0.1"]).await;
    let (address, _) = server(&["127.0.0.1"]).await;
    assert!(get_version(address, other).await.is_err());
}
