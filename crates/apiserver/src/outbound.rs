//! [`Outbound`]: requests that the server itself makes to others: webhooks and aggregated servers.
//!
//! Connections are kept and shared by all requests to the same destination. Nothing here waits for
//! ever: the caller sets a time-out around it, and says when that passes.
//!
//! A destination that stops to answer is left. HTTP/2 connections are asked whether they are still
//! there, and the connections to a destination that has not answered a request by its deadline are
//! not used again: the next request makes a new one, to the next address if there are several. A
//! request that ends earlier, because its client has disconnected, says nothing about its
//! destination.

mod client_config;
pub mod insecure_verifier;
mod connector;
pub(crate) mod service;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
pub(crate) use client_config::ClientConfig;
use connector::{AddressIndex, Connector};
use http::{Extensions, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Destinations whose connections are kept; with more, all are forgotten and made again.
const MAX_DESTINATIONS: usize = 256;

/// How long an unused connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// After how long without a frame an HTTP/2 connection is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// How long it may take to answer that.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// A request that waited for less than this says nothing about its destination, even if its deadline
/// has passed: clients may set one as short as they like.
const UNRESPONSIVE_AFTER: Duration = Duration::from_millis(500);

/// Whom to believe who they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// Whoever the operating system trusts.
    System,
    /// Whoever has a certificate from one of these authorities, in PEM.
    CaBundle(Arc<str>),
    /// Anybody.
    Insecure,
}

impl Trust {
    /// From a bundle of certificates in PEM in base64; none means whom the system trusts. One that
    /// cannot be read is kept as what it is: a bundle without certificates.
    pub(crate) fn from_ca_bundle(bundle: &str) -> Self {
        if bundle.is_empty() {
            return Self::System;
        }
        let pem = BASE64_STANDARD.decode(bundle).unwrap_or_default();
        Self::CaBundle(String::from_utf8_lossy(&pem).into())
    }
}

/// Who we say we are: a certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    /// The chain.
    pub certificate: Arc<str>,
    /// Its key.
    pub key: Arc<str>,
}

/// Where a request goes, and what is expected of the other side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    /// The name that its certificate must have.
    pub server_name: String,
    /// Where to dial, as `host:port`; empty: where the request is addressed to.
    pub addresses: Vec<String>,
    /// See the type.
    pub trust: Trust,
    /// See the type.
    pub identity: Option<Identity>,
}

/// Why there was no answer, in Go's words, which is how users know it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody is there, or not who was expected.
    #[error("{0}")]
    Connect(String),
    /// The other side broke off, or does not speak HTTP.
    #[error("{0}")]
    Transport(String),
    /// The answer is larger than the caller takes.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// What is configured cannot be used.
    #[error(transparent)]
    Config(#[from] connector::ConfigError),
}

type Pool = Client<Connector, Full<Bytes>>;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    pools: Mutex<HashMap<Destination, DestinationPool>>,
}

/// The connections to a destination, and how new ones are made.
#[derive(Debug)]
struct DestinationPool {
    pool: Pool,
    connector: Connector,
}

/// A request that waits for the other side. If it is dropped without an answer at its deadline, the
/// connections to its destination are not used again.
struct PendingRequest<'a> {
    outbound: &'a Outbound,
    to: &'a Destination,
    since: Instant,
    deadline: Option<Instant>,
    /// The connection of the request, once it has one.
    connection: CaptureConnection,
    answered: bool,
}

impl Outbound {
    /// Sends a request and returns the answer with all of its body, of at most `limit` bytes. The
    /// caller drops it at `deadline`.
    pub(crate) async fn call(
        &self,
        to: &Destination,
        mut request: Request<Full<Bytes>>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Response<Bytes>, Error> {
        let connection = capture_connection(&mut request);
        let response = self.send(to, request, connection.clone(), Some(deadline)).await?;
        let (head, body) = response.into_parts();
        let mut pending = self.begin_request(to, connection, Some(deadline));
        let body = Limited::new(body, limit).collect().await;
        pending.answered = true;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::TooLarge(limit)
            } else {
                Error::Transport(error.to_string())
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Sends a request and returns the answer, whose body is still to come. The caller drops it at
    /// `deadline`, if there is one.
    pub(crate) async fn open(
        &self,
        to: &Destination,
        mut request: Request<Full<Bytes>>,
        deadline: Option<Instant>,
    ) -> Result<Response<Incoming>, Error> {
        let connection = capture_connection(&mut request);
        self.send(to, request, connection, deadline).await
    }

    async fn send(
        &self,
        to: &Destination,
        request: Request<Full<Bytes>>,
        connection: CaptureConnection,
        deadline: Option<Instant>,
    ) -> Result<Response<Incoming>, Error> {
        let pool = self.pool(to)?;
        let mut pending = self.begin_request(to, connection, deadline);
        let response = pool.request(request).await;
        pending.answered = true;
        response.map_err(|error| {
            if !error.is_connect() {
                self.replace_connections(to, pending.address_index());
            }
            let mut cause: &dyn std::error::Error = &error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            if error.is_connect() {
                Error::Connect(cause.to_string())
            } else {
                Error::Transport(cause.to_string())
            }
        })
    }

    fn pool(&self, to: &Destination) -> Result<Pool, Error> {
        let mut pools = self.lock();
        if let Some(found) = pools.get(to) {
            return Ok(found.pool.clone());
        }
        if pools.len() >= MAX_DESTINATIONS {
            pools.clear();
        }
        let connector = Connector::new(to)?;
        let pool = pool(connector.clone());
        pools.insert(to.clone(), DestinationPool { pool: pool.clone(), connector });
        Ok(pool)
    }

    fn begin_request<'a>(
        &'a self,
        to: &'a Destination,
        connection: CaptureConnection,
        deadline: Option<Instant>,
    ) -> PendingRequest<'a> {
        let since = Instant::now();
        PendingRequest { outbound: self, to, since, deadline, connection, answered: false }
    }

    /// Makes new connections from now on, to the address behind that of a connection. What is under
    /// way goes on.
    fn replace_connections(&self, to: &Destination, address_index: Option<AddressIndex>) {
        if let Some(destination_pool) = self.lock().get_mut(to) {
            if let Some(address_index) = address_index {
                destination_pool.connector.skip_address(address_index);
            }
            destination_pool.pool = pool(destination_pool.connector.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Destination, DestinationPool>> {
        self.pools.lock().expect("nothing panics while it looks for a pool")
    }
}

impl PendingRequest<'_> {
    /// The address of the connection. Without one, the next connection begins elsewhere already.
    fn address_index(&self) -> Option<AddressIndex> {
        let mut extras = Extensions::new();
        self.connection.connection_metadata().as_ref()?.get_extras(&mut extras);
        extras.get().copied()
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        let Some(deadline) = self.deadline else { return };
        let now = Instant::now();
        if !self.answered && now >= deadline && now - self.since >= UNRESPONSIVE_AFTER {
            self.outbound.replace_connections(self.to, self.address_index());
        }
    }
}

fn pool(connector: Connector) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector)
}

#[cfg(test)]
mod tests;
