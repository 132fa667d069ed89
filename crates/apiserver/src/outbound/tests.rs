//! Tests of destinations with several addresses, some of which do not answer.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::service::service_fn;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::*;
use crate::certificates::Authority;
use keel::{Clock, Tasks};

/// The settings of a [`server`], and what it has received.
#[derive(Default)]
struct ServerState {
    /// Whether the server sends nothing after the handshake.
    is_silent: bool,
    connections: AtomicUsize,
    /// Notified when a request for `/silent` arrives.
    silent_request: Notify,
}

/// Starts a server that responds to everything but `/silent` with 200; returns its address and its CA.
async fn server(state: &Arc<ServerState>) -> (SocketAddr, Trust) {
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
    let state = Arc::clone(state);
    tasks.spawn("accept", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, state) = (tls.clone(), Arc::clone(&state));
            connections.spawn("connection", async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                state.connections.fetch_add(1, Ordering::SeqCst);
                if state.is_silent {
                    std::future::pending::<()>().await;
                }
                let service = service_fn(|request: Request<Incoming>| {
                    let state = Arc::clone(&state);
                    async move {
                        if request.uri().path() == "/silent" {
                            state.silent_request.notify_one();
                            std::future::pending::<()>().await;
                        }
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                    }
                });
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, Trust::CaBundle(authority.certificate().into()))
}

/// A destination with the addresses of a listener that sends nothing and of a server, and the listener.
async fn destination_with_silent_address() -> (Destination, TcpListener) {
    let (address, trust) = server(&Arc::default()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [silent.local_addr().unwrap(), address].map(|it| it.to_string()).into();
    let server_name = "localhost".to_owned();
    (Destination { server_name, port: 443, addresses, trust, identity: None }, silent)
}

/// Sends a request for a path with the deadline `within`; returns the status code.
async fn request(outbound: &Outbound, to: &Destination, path: &str, within: Duration) -> u16 {
    let request = Request::get(format!("https://localhost{path}")).body(Full::default()).unwrap();
    let deadline = Instant::now() + within;
    outbound.call(to, request, 10, deadline).await.unwrap().status().as_u16()
}

async fn call(outbound: &Outbound, to: &Destination) -> u16 {
    request(outbound, to, "/", Duration::from_secs(30)).await
}

#[tokio::test]
async fn an_address_without_a_handshake_is_skipped() {
    let (to, _silent) = destination_with_silent_address().await;
    assert_eq!(call(&Outbound::default(), &to).await, 200);
}

#[tokio::test]
async fn a_request_after_a_timeout_of_the_handshake_goes_to_the_next_address() {
    let (to, _silent) = destination_with_silent_address().await;
    let outbound = Outbound::default();
    let within = UNRESPONSIVE_AFTER * 2;
    let timed_out = timeout(within, request(&outbound, &to, "/", within)).await;
    assert!(timed_out.is_err(), "the first address is silent");
    let before = Instant::now();
    assert_eq!(call(&outbound, &to).await, 200);
    assert!(
        before.elapsed() < connector::ADDRESS_TIMEOUT,
        "the request began with the silent address"
    );
}

/// The number of connections of two requests, the first of which has no response. Its deadline is
/// `within`, and it is dropped after `waited`.
async fn connections_after_silent_request(within: Duration, waited: Duration) -> usize {
    let state = Arc::default();
    let (address, trust) = server(&state).await;
    let (addresses, server_name) = ([address.to_string()].into(), "localhost".to_owned());
    let to = Destination { server_name, port: 443, addresses, trust, identity: None };
    let outbound = Outbound::default();
    let mut silent = Box::pin(request(&outbound, &to, "/silent", within));
    tokio::select! {
        _ = &mut silent => panic!("the server responded"),
        () = state.silent_request.notified() => {}
    }
    assert!(timeout(waited, &mut silent).await.is_err());
    drop(silent);
    assert_eq!(call(&outbound, &to).await, 200);
    state.connections.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_request_dropped_before_its_deadline_leaves_the_connection_in_use() {
    assert_eq!(
        connections_after_silent_request(Duration::from_secs(10), UNRESPONSIVE_AFTER * 2).await,
        1
    );
}

#[tokio::test]
async fn a_request_dropped_at_its_deadline_replaces_the_connection() {
    assert_eq!(connections_after_silent_request(UNRESPONSIVE_AFTER, UNRESPONSIVE_AFTER).await, 2);
}

/// The addresses of these servers, in this order.
async fn destination(servers: &[&Arc<ServerState>]) -> Destination {
    let (mut addresses, mut authorities) = (Vec::new(), String::new());
    for state in servers {
        let (address, Trust::CaBundle(authority)) = server(state).await else {
            panic!("the server is trusted by its authority");
        };
        addresses.push(address.to_string());
        authorities.push_str(&authority);
    }
    let (server_name, trust) = ("localhost".to_owned(), Trust::CaBundle(authorities.into()));
    let addresses = addresses.into();
    Destination { server_name, port: 443, addresses, trust, identity: None }
}

#[tokio::test]
async fn a_request_after_a_timeout_on_a_connection_goes_to_the_next_address() {
    let silent = Arc::new(ServerState { is_silent: true, ..ServerState::default() });
    let answering = Arc::default();
    let to = destination(&[&silent, &answering, &silent]).await;
    let outbound = Outbound::default();
    let within = UNRESPONSIVE_AFTER * 2;
    let timed_out = timeout(within, request(&outbound, &to, "/", within)).await;
    assert!(timed_out.is_err(), "the first address is silent");
    let next = timeout(within, call(&outbound, &to)).await;
    assert_eq!(next.ok(), Some(200), "the request went to a silent address");
    assert_eq!(answering.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn skipping_the_address_of_an_older_connection_does_not_skip_the_first_address() {
    let (first, second) = (Arc::default(), Arc::default());
    let to = destination(&[&first, &second]).await;
    let mut connector = Connector::new(&to).unwrap();
    // The second connection begins while the first one is being made, and ends after it.
    let uri = || http::Uri::from_static("https://localhost");
    let mut late = connector.call(uri());
    tokio::select! {
        biased;
        _ = &mut late => panic!("a connection takes more than one poll"),
        () = std::future::ready(()) => {}
    }
    let other = connector.call(uri()).await.unwrap();
    let late = late.await.unwrap();
    assert_ne!(address_index(&late), address_index(&other));
    connector.skip_address(address_index(&other));
    assert_eq!(address_index(&connector.call(uri()).await.unwrap()), address_index(&late));
}

fn address_index(stream: &connector::Stream) -> AddressIndex {
    let mut extras = Extensions::new();
    stream.connected().get_extras(&mut extras);
    *extras.get().unwrap()
}

#[tokio::test]
async fn changed_addresses_replace_the_pool_of_their_destination() {
    let (first, second) = (Arc::default(), Arc::default());
    let mut to = destination(&[&first, &second]).await;
    let all = to.addresses.to_vec();
    let outbound = Outbound::default();
    for address in &all {
        to.addresses = [address.clone()].into();
        assert_eq!(call(&outbound, &to).await, 200);
    }
    assert_eq!(outbound.lock().len(), 1);
    for state in [first, second] {
        assert_eq!(state.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn the_least_recently_used_pool_is_dropped() {
    let outbound = Outbound::default();
    let to = |n: usize| Destination::of_url(format!("host-{n}"), Trust::Insecure);
    for n in 0..MAX_DESTINATIONS {
        outbound.pool(&to(n)).unwrap();
    }
    outbound.pool(&to(0)).unwrap();
    outbound.pool(&to(MAX_DESTINATIONS)).unwrap();
    let pools = outbound.lock();
    assert_eq!(pools.len(), MAX_DESTINATIONS);
    let kept = [0, 1, 2].map(|n| pools.contains_key(&to(n).pool_key()));
    assert_eq!(kept, [true, false, true]);
}
