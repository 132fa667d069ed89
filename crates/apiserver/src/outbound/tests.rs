//! Destinations with several addresses, some of which are mute.

use super::*;
use crate::certificates::Authority;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use keel::{Clock, Tasks};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A server that answers everything with 200, and what its callers trust.
async fn server() -> (SocketAddr, Trust) {
    let now = Clock::system().now();
    let authority = Authority::new(now).unwrap();
    let certified = authority.serving(&["localhost"], &[], now).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certified.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = Tasks::new();
    let connections = tasks.clone();
    tasks.spawn("accept", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tls = tls.clone();
            connections.spawn("connection", async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(|_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                });
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, Trust::Authorities(authority.certificate().into()))
}

/// The address of a mute listener and of a server, and the listener.
async fn half_mute() -> (Destination, TcpListener) {
    let (address, trust) = server().await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [mute.local_addr().unwrap(), address].map(|it| it.to_string()).to_vec();
    let server_name = "localhost".to_owned();
    (Destination { server_name, addresses, trust, identity: None }, mute)
}

async fn call(outbound: &Outbound, to: &Destination) -> u16 {
    let request = Request::get("https://localhost/").body(Full::default()).unwrap();
    outbound.call(to, request, 10).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn an_address_that_accepts_and_says_nothing_is_passed_over() {
    let (to, _mute) = half_mute().await;
    assert_eq!(call(&Outbound::default(), &to).await, 200);
}

#[tokio::test]
async fn after_a_request_that_was_given_up_the_next_one_goes_to_the_next_address() {
    let (to, _mute) = half_mute().await;
    let outbound = Outbound::default();
    let given_up = timeout(MUTE_AFTER * 2, call(&outbound, &to)).await;
    assert!(given_up.is_err(), "the first address is mute");
    let before = Instant::now();
    assert_eq!(call(&outbound, &to).await, 200);
    assert!(before.elapsed() < connector::NEXT_ADDRESS_AFTER, "it began with the mute address");
}
