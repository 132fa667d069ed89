//! [`KeySet`]: the keys of an issuer, which are fetched from it over HTTPS.
//!
//! ```text
//! discovery, every 10 s until it succeeds ─▶ keys, at once ─▶ keys again, whenever a token cannot be
//!                                                             verified (at most once in 10 s), or
//!                                                             after an hour
//! ```
//!
//! One task owns this, so that there is one fetch at a time, however many tokens wait for it. The
//! issuer is not trusted: its answers have a limit of size and of time, and keys that cannot be used
//! are left out. If it does not answer, the last keys stay in use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::Full;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::super::json_web_token::{JsonWebToken, PublicKey};
use super::configuration::Issuer;
use crate::outbound::{Destination, Outbound};
use keel::{Clock, ClockInstant, Tasks};
use machinery::Value;
use machinery::field_path::quote;
use tls::Trust;

/// The interval between attempts to read the document of the issuer. The value is upstream's.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);

/// The minimum interval between fetches that tokens cause.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// The same after a fetch that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The age at which keys are fetched again without a cause, so that withdrawn keys are forgotten.
const MAX_AGE: Duration = Duration::from_hours(1);

/// The time limit of a request to the issuer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time for which a token waits for new keys.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// The maximum number of keys.
const MAX_KEYS: usize = 100;

/// See the [module documentation](self). The task ends when the last clone is dropped.
#[derive(Debug)]
pub(super) struct KeySet {
    state: watch::Receiver<KeysState>,
    /// Asks the task for new keys.
    wanted: Arc<Notify>,
    /// Ends the task when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// The keys at a point in time.
#[derive(Debug, Clone, Default)]
struct KeysState {
    /// Increments whenever the task has dealt with the wish for new keys.
    generation: u64,
    /// Whether the document of the issuer was read.
    is_discovered: bool,
    keys: Arc<[PublicKey]>,
    /// The error of the last attempt.
    error: Option<String>,
}

/// What the task needs.
struct Fetcher {
    issuer: Issuer,
    trust: Trust,
    outbound: Outbound,
    clock: Clock,
    state: watch::Sender<KeysState>,
    wanted: Arc<Notify>,
}

impl KeySet {
    /// Starts to fetch the keys.
    pub(super) fn start(issuer: &Issuer, clock: &Clock, tasks: &Tasks) -> Self {
        let trust = match issuer.certificate_authority.as_str() {
            "" => Trust::System,
            bundle => Trust::CaBundle(bundle.into()),
        };
        let (sender, state) = watch::channel(KeysState::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let wanted = Arc::new(Notify::new());
        let fetcher = Fetcher {
            issuer: issuer.clone(),
            trust,
            outbound: Outbound::default(),
            clock: clock.clone(),
            state: sender,
            wanted: Arc::clone(&wanted),
        };
        let shutdown = tasks.shutdown();
        tasks.spawn("issuer-keys", async move {
            tokio::select! {
                () = fetcher.run() => {}
                _ = stopped => {}
                () = shutdown => {}
            }
        });
        Self { state, wanted, _stop: stop }
    }

    /// An error if the document of the issuer was not read yet.
    pub(super) fn check_health(&self) -> Result<(), String> {
        let state = self.state.borrow();
        match &state.error {
            _ if state.is_discovered => Ok(()),
            Some(error) => Err(error.clone()),
            None => Err("not initialized".to_owned()),
        }
    }

    /// Waits until the document of the issuer was read.
    pub(super) async fn discovered(&self) {
        // The sender lives as long as `self`, or the plane stops.
        let _ = self.state.clone().wait_for(|it| it.is_discovered).await;
    }

    /// Whether the document of the issuer was read.
    pub(super) fn is_discovered(&self) -> bool {
        self.state.borrow().is_discovered
    }

    /// An error if the signature of a token is not that of a key. Waits for new keys if it is not that
    /// of a known one.
    pub(super) async fn verify(&self, token: &JsonWebToken<'_>) -> Result<(), String> {
        let mut state = self.state.clone();
        let seen = match state.borrow().clone() {
            known if known.verifies(token) => return Ok(()),
            known => known.generation,
        };
        self.wanted.notify_one();
        let renewed = timeout(WAIT_TIMEOUT, state.wait_for(|it| it.generation > seen)).await;
        let Ok(Ok(renewed)) = renewed.map(|it| it.map(|it| it.clone())) else {
            return Err("fetching keys context deadline exceeded".to_owned());
        };
        match renewed.error {
            _ if renewed.verifies(token) => Ok(()),
            Some(error) => Err(format!("fetching keys {error}")),
            None => Err("failed to verify id token signature".to_owned()),
        }
    }
}

impl KeysState {
    fn verifies(&self, token: &JsonWebToken<'_>) -> bool {
        let id = token.key_id();
        let mut named = self.keys.iter().filter(|it| id.is_empty() || it.id() == id);
        named.any(|key| token.verify(key))
    }
}

impl Fetcher {
    async fn run(self) {
        let url = loop {
            match self.discover().await {
                Ok(url) => break url,
                Err(error) => {
                    let issuer = &self.issuer.url;
                    tracing::error!(
                        error,
                        issuer,
                        "cannot read the document of an issuer of tokens"
                    );
                    self.state.send_modify(|it| it.error = Some(error));
                }
            }
            self.clock.sleep(DISCOVERY_INTERVAL).await;
        };
        self.fetch(&url).await;
        // The first fetch does not count, since keys may change directly after the start.
        let mut fetched: Option<ClockInstant> = None;
        loop {
            let is_wanted = tokio::select! {
                () = self.wanted.notified() => true,
                () = self.clock.sleep(MAX_AGE) => false,
            };
            let failed = self.state.borrow().error.is_some();
            let interval = if failed { RETRY_INTERVAL } else { REFRESH_INTERVAL };
            let is_early =
                fetched.as_ref().is_some_and(|it| self.clock.elapsed_since(it) < interval);
            if is_wanted && is_early {
                // Those who wait get the keys that there are.
                self.state.send_modify(|it| it.generation += 1);
                continue;
            }
            self.fetch(&url).await;
            fetched = Some(self.clock.instant());
        }
    }

    /// The URL of the keys, from the document of the issuer.
    async fn discover(&self) -> Result<String, String> {
        let issuer = &self.issuer;
        let default = || {
            let base = issuer.url.strip_suffix('/').unwrap_or(&issuer.url);
            format!("{base}/.well-known/openid-configuration")
        };
        let url = issuer.discovery_url.clone().filter(|it| !it.is_empty()).unwrap_or_else(default);
        let document = self.get(&url).await?;
        let document: Value = serde_json::from_slice(&document).map_err(|error| {
            format!("oidc: failed to decode provider discovery object: {error}")
        })?;
        let found = document["issuer"].as_str().unwrap_or_default();
        if found != issuer.url {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {} got {}",
                quote(&issuer.url),
                quote(found),
            ));
        }
        match document["jwks_uri"].as_str().unwrap_or_default() {
            "" => Err("provider did not return JWKS URL".to_owned()),
            url if url.starts_with("https://") => Ok(url.to_owned()),
            url => Err(format!("the URL of the keys, {}, is not https", quote(url))),
        }
    }

    /// Fetches the keys; those that were fetched before remain if that fails.
    async fn fetch(&self, url: &str) {
        let answer = self.get(url).await.map_err(|why| format!("oidc: get keys failed {why}"));
        let keys = answer.and_then(|body| {
            read_keys(&body).map_err(|why| format!("oidc: failed to decode keys: {why}"))
        });
        if let Err(error) = &keys {
            let issuer = &self.issuer.url;
            tracing::warn!(error, issuer, "cannot fetch the keys of an issuer of tokens");
        }
        self.state.send_modify(|state| {
            state.generation += 1;
            state.is_discovered = true;
            match keys {
                Ok(keys) => (state.keys, state.error) = (keys, None),
                Err(error) => state.error = Some(error),
            }
        });
    }

    /// The body of a response with the code 200. Redirects are not followed.
    async fn get(&self, url: &str) -> Result<Bytes, String> {
        let failed = |why: &dyn std::fmt::Display| format!("Get {}: {why}", quote(url));
        let uri: Uri = url.parse().map_err(|error| failed(&error))?;
        let name = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let destination = Destination::of_url(name, self.trust.clone());
        let request = Request::get(uri).header(http::header::ACCEPT, "application/json");
        let request = request.body(Full::default()).map_err(|error| failed(&error))?;
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let call = self.outbound.call(&destination, request, MAX_RESPONSE, deadline);
        let answer = match timeout_at(deadline, call).await {
            Err(_) => return Err(failed(&"context deadline exceeded")),
            Ok(answer) => answer.map_err(|error| failed(&error))?,
        };
        match answer.status() {
            http::StatusCode::OK => Ok(answer.into_body()),
            code if code.is_redirection() => Err(failed(&"redirects are not followed")),
            code => Err(failed(&code)),
        }
    }
}

/// The keys of a set that can be used.
fn read_keys(body: &[u8]) -> Result<Arc<[PublicKey]>, String> {
    let set: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let keys = set["keys"].as_array().ok_or("there is no list of keys")?;
    Ok(keys.iter().filter_map(|it| PublicKey::from_jwk(it).ok()).take(MAX_KEYS).collect())
}
