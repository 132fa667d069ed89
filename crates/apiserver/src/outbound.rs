//! [`Outbound`]: the HTTP client for requests of the server to webhooks and aggregated servers.
//!
//! Connections are pooled and shared by all requests to the same destination. The caller ends a
//! request at its deadline by dropping the future, and passes the deadline.
//!
//! Unresponsive connections are replaced. HTTP/2 connections are checked with pings, and the
//! connections to a destination that has not answered a request by its deadline are not used again:
//! the next request opens a new one, to the next address if the destination has several. A request
//! that ends before its deadline, because its client has disconnected, has no such effect.

mod client_config;
mod connector;
mod failure_message;
mod request_url;
pub(crate) mod service;
pub mod in_process_services;
pub mod review_client;
pub mod webhook_endpoint;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Extensions, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use tokio::time::Instant;

use connector::{AddressIndex, Connector};
use tls::{Identity, Trust, pool_builder};

pub(crate) use client_config::ClientConfig;
pub(crate) use failure_message::failure_message;

/// The maximum number of destinations with pooled connections. When it is exceeded, the pool that was
/// not used for the longest time is dropped.
const MAX_DESTINATIONS: usize = 256;

/// The time after which an unused connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The time without a frame after which a ping is sent on an HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The time within which a ping must be answered.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The minimum time that a request waits before its destination counts as unresponsive. Clients may
/// set arbitrarily short deadlines.
const UNRESPONSIVE_AFTER: Duration = Duration::from_millis(500);

/// Reads a `caBundle`, which is PEM in base64. An empty one stands for the system's roots. One that
/// cannot be decoded becomes a bundle without certificates, which is refused when it is used.
pub(crate) fn trust_from_ca_bundle(bundle: &str) -> Trust {
    if bundle.is_empty() {
        return Trust::System;
    }
    let pem = BASE64_STANDARD.decode(bundle).unwrap_or_default();
    Trust::CaBundle(String::from_utf8_lossy(&pem).into())
}

/// The destination of a request, and the TLS settings for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The name that its certificate must have.
    pub server_name: String,
    /// The port of the service; 0 if the destination is a URL.
    pub port: u16,
    /// The addresses to dial, as `host:port`. If empty, the host of the request's URL is dialed.
    pub addresses: Arc<[String]>,
    /// How its certificate is verified.
    pub trust: Trust,
    /// The client certificate, if one is presented.
    pub identity: Option<Identity>,
}

impl Destination {
    /// The host of the request's URL.
    pub(crate) fn of_url(server_name: String, trust: Trust) -> Self {
        Self { server_name, port: 0, addresses: Arc::default(), trust, identity: None }
    }

    fn pool_key(&self) -> PoolKey {
        let Self { server_name, port, trust, identity, .. } = self.clone();
        PoolKey { server_name, port, trust, identity }
    }
}

/// A destination without its addresses, which may change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    server_name: String,
    port: u16,
    trust: Trust,
    identity: Option<Identity>,
}

/// The error of a request. The messages are those of Go's client, which users of Kubernetes know.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No connection could be made, or the certificate was not accepted.
    #[error("{0}")]
    Connect(String),
    /// The connection was closed, or the response is not HTTP.
    #[error("{0}")]
    Transport(String),
    /// The response is larger than the caller's limit.
    #[error("the response has more than {0} bytes")]
    TooLarge(usize),
    /// The TLS settings of the destination cannot be used.
    #[error(transparent)]
    Config(#[from] tls::ConfigError),
}

type Pool = Client<Connector, Full<Bytes>>;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    pools: Mutex<HashMap<PoolKey, DestinationPool>>,
}

/// The connections to a destination, and the connector that makes new ones.
#[derive(Debug)]
struct DestinationPool {
    pool: Pool,
    connector: Connector,
    /// The time of the last request.
    used: Instant,
}

/// A request in progress. If it is dropped at its deadline without a response, the connections to its
/// destination are not used again.
struct PendingRequest<'a> {
    outbound: &'a Outbound,
    to: &'a Destination,
    started: Instant,
    deadline: Option<Instant>,
    /// The connection of the request, once it has one.
    connection: CaptureConnection,
    answered: bool,
}

impl Outbound {
    /// Sends a request and returns the response with its whole body, of at most `limit` bytes. The
    /// caller drops the future at `deadline`.
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

    /// Sends a request and returns the response, whose body is streamed. The caller drops the future
    /// at `deadline`, if it has one.
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
            let cause = keel::causes(&error).last().unwrap_or(&error).to_string();
            if error.is_connect() { Error::Connect(cause) } else { Error::Transport(cause) }
        })
    }

    fn pool(&self, to: &Destination) -> Result<Pool, Error> {
        let (key, used) = (to.pool_key(), Instant::now());
        let mut pools = self.lock();
        if let Some(found) = pools.get_mut(&key) {
            found.used = used;
            if *found.connector.addresses() != to.addresses {
                found.connector = found.connector.with_addresses(&to.addresses);
                found.pool = pool(found.connector.clone());
            }
            return Ok(found.pool.clone());
        }
        let connector = Connector::new(to)?;
        if pools.len() >= MAX_DESTINATIONS {
            let oldest = pools.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone());
            oldest.and_then(|key| pools.remove(&key));
        }
        let pool = pool(connector.clone());
        pools.insert(key, DestinationPool { pool: pool.clone(), connector, used });
        Ok(pool)
    }

    fn begin_request<'a>(
        &'a self,
        to: &'a Destination,
        connection: CaptureConnection,
        deadline: Option<Instant>,
    ) -> PendingRequest<'a> {
        let started = Instant::now();
        PendingRequest { outbound: self, to, started, deadline, connection, answered: false }
    }

    /// Uses new connections from now on, beginning with the address after `address_index`. Requests
    /// in progress continue.
    fn replace_connections(&self, to: &Destination, address_index: Option<AddressIndex>) {
        if let Some(destination_pool) = self.lock().get_mut(&to.pool_key()) {
            if let Some(address_index) = address_index {
                destination_pool.connector.skip_address(address_index);
            }
            destination_pool.pool = pool(destination_pool.connector.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PoolKey, DestinationPool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRequest<'_> {
    /// The address of the connection. None before a connection is made; the next one then begins with
    /// another address anyway.
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
        if !self.answered && now >= deadline && now - self.started >= UNRESPONSIVE_AFTER {
            self.outbound.replace_connections(self.to, self.address_index());
        }
    }
}

fn pool(connector: Connector) -> Pool {
    pool_builder(PING_INTERVAL, PING_TIMEOUT).pool_idle_timeout(IDLE_TIMEOUT).build(connector)
}

#[cfg(test)]
mod tests;
