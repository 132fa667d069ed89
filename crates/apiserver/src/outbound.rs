//! [`Outbound`]: requests that the server itself makes to others: webhooks and aggregated servers.
//!
//! Connections are kept and shared by all requests to the same destination. Nothing here waits for
//! ever: who calls sets the time-out around it.

mod client_config;
mod connector;
pub(crate) mod service;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
pub(crate) use client_config::ClientConfig;
use connector::Connector;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Destinations whose connections are kept; with more, all are forgotten and made again.
const MAX_DESTINATIONS: usize = 256;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_mins(1);

/// Whom to believe who they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// Whoever the operating system trusts.
    System,
    /// Whoever has a certificate from one of these authorities, in PEM.
    Authorities(Arc<str>),
    /// Anybody.
    Anyone,
}

impl Trust {
    /// From a bundle of certificates in PEM in base64; none means whom the system trusts. One that
    /// cannot be read is kept as what it is: a bundle without certificates.
    pub(crate) fn of_bundle(bundle: &str) -> Self {
        if bundle.is_empty() {
            return Self::System;
        }
        let pem = BASE64_STANDARD.decode(bundle).unwrap_or_default();
        Self::Authorities(String::from_utf8_lossy(&pem).into())
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
    Broken(String),
    /// The answer is larger than the caller takes.
    #[error("the answer has more than {0} bytes")]
    TooLarge(usize),
    /// What is configured cannot be used.
    #[error(transparent)]
    Unusable(#[from] connector::Unusable),
}

type Pool = Client<Connector, Full<Bytes>>;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    pools: Mutex<HashMap<Destination, Pool>>,
}

impl Outbound {
    /// Sends a request and returns the answer with all of its body, of at most `limit` bytes.
    pub(crate) async fn call(
        &self,
        to: &Destination,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<Response<Bytes>, Error> {
        let (head, body) = self.open(to, request).await?.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Error::TooLarge(limit)
            } else {
                Error::Broken(error.to_string())
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }

    /// Sends a request and returns the answer, whose body is still to come.
    pub(crate) async fn open(
        &self,
        to: &Destination,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        let pool = self.pool(to)?;
        pool.request(request).await.map_err(|error| {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            if error.is_connect() {
                Error::Connect(cause.to_string())
            } else {
                Error::Broken(cause.to_string())
            }
        })
    }

    fn pool(&self, to: &Destination) -> Result<Pool, Error> {
        let mut pools = self.pools.lock().expect("nothing panics while it looks for a pool");
        if let Some(found) = pools.get(to) {
            return Ok(found.clone());
        }
        if pools.len() >= MAX_DESTINATIONS {
            pools.clear();
        }
        let pool = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(Connector::new(to)?);
        pools.insert(to.clone(), pool.clone());
        Ok(pool)
    }
}
