//! The limits of a webhook server for the bodies of all requests together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::https;
use crate::plane::{Plane, certificate_options, server_options};
use runtime::webhook::{Certificates, Handler, ServerOptions, WebhookServer};

const NEVER: Duration = Duration::from_hours(1);
const TIMEOUT: Duration = Duration::from_secs(20);

/// The bytes of each body that are not charged.
const UNCHARGED: usize = 32 << 10;

/// A server with a handler that reports each body, and waits for a permit.
struct GatedServer {
    plane: Plane,
    bundle: String,
    address: SocketAddr,
    received: mpsc::Receiver<usize>,
    gate: Arc<Semaphore>,
}

impl GatedServer {
    async fn start(options: ServerOptions) -> Self {
        let plane = Plane::start().await;
        let Plane { client, clock, entropy, tasks, .. } = &plane;
        let certificates =
            Certificates::start(client.clone(), certificate_options(), clock, entropy, tasks);
        let certificates = certificates.await.unwrap();
        let ((report, received), gate) = (mpsc::channel(8), Arc::new(Semaphore::new(0)));
        let opened = Arc::clone(&gate);
        let handler = || {
            let (report, opened) = (report.clone(), Arc::clone(&opened));
            Handler::new(move |body| {
                let (report, gate) = (report.clone(), Arc::clone(&opened));
                async move {
                    report.send(body.len()).await.unwrap();
                    let _passed = gate.acquire().await.unwrap();
                    Ok(body)
                }
            })
        };
        let options = ServerOptions {
            body_timeout: NEVER,
            handler_timeout: NEVER,
            first_request_timeout: NEVER,
            ..options
        };
        let server = WebhookServer::new(options)
            .at("/review", handler())
            .at("/large", handler().with_max_body(1 << 20));
        let address = server.start(&certificates.serving(), clock, tasks).await.unwrap();
        let bundle = certificates.bundle().borrow().clone();
        Self { plane, bundle, address, received, gate }
    }

    fn send(&self, length: usize) -> JoinHandle<(u16, String)> {
        self.send_to("/review", length)
    }

    fn send_to(&self, path: &'static str, length: usize) -> JoinHandle<(u16, String)> {
        let (address, bundle, clock) =
            (self.address, self.bundle.clone(), self.plane.clock.clone());
        self.plane.tasks.spawn("review", async move {
            https::send(address, &bundle, &clock, path, &" ".repeat(length)).await.unwrap()
        })
    }
}

async fn response(sent: JoinHandle<(u16, String)>) -> (u16, String) {
    timeout(TIMEOUT, sent).await.expect("there is a response in time").unwrap()
}

fn limited() -> ServerOptions {
    ServerOptions { max_body: 1 << 20, max_buffered: 100_000, ..server_options() }
}

#[tokio::test]
async fn a_review_is_refused_while_others_hold_all_memory_but_a_small_one_is_not() {
    let mut server = GatedServer::start(limited()).await;
    let first = server.send(UNCHARGED + 60_000);
    assert_eq!(server.received.recv().await, Some(UNCHARGED + 60_000));
    let (code, message) = response(server.send(UNCHARGED + 60_000)).await;
    assert_eq!(code, 503);
    assert!(message.contains("no memory for another review"), "{message}");
    let small = server.send(UNCHARGED);
    assert_eq!(server.received.recv().await, Some(UNCHARGED));
    server.gate.add_permits(1);
    assert_eq!((response(small).await.0, response(first).await.0), (200, 200));
    assert_eq!(response(server.send(UNCHARGED + 60_000)).await.0, 200, "the memory is free again");
}

#[tokio::test]
async fn bodies_without_progress_are_dropped_when_a_review_needs_their_memory() {
    let length = UNCHARGED + 60_000;
    check_stalled_body(limited(), "/review", length, length + 1).await;
}

#[tokio::test]
async fn a_large_body_reserves_its_declared_length() {
    let options = ServerOptions { max_body: 100_000, max_buffered: 1_000_000, ..server_options() };
    check_stalled_body(options, "/large", 200_000, 700_000).await;
}

/// Sends a part of a body, and others of the same length until the server drops the first one.
async fn check_stalled_body(
    options: ServerOptions,
    path: &'static str,
    sent: usize,
    length: usize,
) {
    let server = GatedServer::start(options).await;
    server.gate.add_permits(1);
    let connected =
        https::connect(server.address, &server.bundle, &server.plane.clock, &["http/1.1"]);
    let mut stalled = connected.await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
    stalled.write_all(head.as_bytes()).await.unwrap();
    stalled.write_all(&vec![b' '; sent]).await.unwrap();
    let mut reviews = 0;
    let mut answered = String::new();
    let dropped = async {
        // Until the server has read the stalled body, the memory suffices.
        loop {
            assert_eq!(response(server.send_to(path, length)).await.0, 200);
            reviews += 1;
        }
    };
    tokio::select! {
        () = dropped => {}
        read = timeout(TIMEOUT, stalled.read_to_string(&mut answered)) => {
            read.expect("the stalled body is dropped in time").unwrap_or_default();
        }
    }
    assert!(answered.starts_with("HTTP/1.1 503 "), "{answered} after {reviews} reviews");
}

#[tokio::test]
async fn a_review_is_refused_while_too_many_are_in_progress() {
    let options = ServerOptions { max_requests: 1, ..limited() };
    let mut server = GatedServer::start(options).await;
    let first = server.send(10);
    assert_eq!(server.received.recv().await, Some(10));
    let (code, message) = response(server.send(10)).await;
    assert_eq!(code, 503);
    assert!(message.contains("too many requests"), "{message}");
    server.gate.add_permits(1);
    assert_eq!(response(first).await.0, 200);
}
