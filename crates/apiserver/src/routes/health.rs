//! `/healthz`, `/livez`, `/readyz`: the health checks of the server and of other parts of its process,
//! together or one by one.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Response;

use crate::http::body::Body;
use crate::http::response;
use crate::plane::Plane;
use crate::plane::health_checks::HealthCheck;
use crate::request::Query;
use informer::ReflectorPhase;
use machinery::field_path::quote;

/// The time within which a healthy store answers and finishes writes. Upstream: the default of
/// `--etcd-healthcheck-timeout` and `--etcd-readycheck-timeout`.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of a check, and what it tests.
type Check = (&'static str, Test);

#[derive(Clone)]
enum Test {
    /// The store answers, accepts writes and finishes them in time.
    Store,
    /// A state of the plane.
    State(fn(&Plane) -> bool),
    /// A state of another part of the process.
    Other(HealthCheck),
}

const PING: Check = ("ping", Test::State(|_| true));
const STORE: Check = ("etcd", Test::Store);
/// Upstream has a second check of the store for readiness, with a timeout of its own.
const STORE_READY: Check = ("etcd-readiness", Test::Store);
/// Whether reads and watches are current. A cache that relists, or has lost its connection to the
/// store, is not ready, and recovers without a restart.
const CACHE_SYNCED: Check =
    ("watch-cache", Test::State(|plane| plane.storage.cache.phase() == ReflectorPhase::Watching));
/// A cache whose reflector has ended needs a restart.
const CACHE_RUNNING: Check =
    ("watch-cache", Test::State(|plane| plane.storage.cache.phase() != ReflectorPhase::Stopped));
const READY: Check =
    ("poststarthook/bootstrap", Test::State(|plane| plane.ready.load(Ordering::Acquire)));
const INFORMERS: Check = ("informer-sync", Test::State(|plane| plane.storage.cache.applied() > 0));
const STOPPING: Check = ("shutdown", Test::State(|plane| !plane.storage.tasks.is_stopping()));

/// The response for `which` of the three paths, or for the single check in `rest`.
pub(crate) async fn health(
    plane: &Plane,
    which: &str,
    rest: &[&str],
    query: &Query,
) -> Response<Body> {
    let checks: &[Check] = match which {
        "livez" => &[PING, STORE, CACHE_RUNNING],
        "readyz" => &[PING, STORE, STORE_READY, CACHE_SYNCED, INFORMERS, READY, STOPPING],
        _ => &[PING, STORE, CACHE_RUNNING, READY],
    };
    let mut checks: Vec<(Cow<'_, str>, Test)> =
        checks.iter().map(|(name, test)| (Cow::Borrowed(*name), test.clone())).collect();
    let others = plane.health_checks.of(which).into_iter();
    checks.extend(others.map(|it| (Cow::Owned(it.name), Test::Other(it.check))));
    let path = rest.join("/");
    if !path.is_empty() {
        return match checks.iter().find(|(name, _)| *name == path) {
            None => response::page_not_found(),
            Some((name, test)) if test.passes(plane, name).await => response::text(200, "ok"),
            Some(_) => response::nosniff_text(500, "internal server error: reason withheld\n"),
        };
    }
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for (name, test) in &checks {
        if excluded.contains(&&**name) {
            excluded.retain(|it| it != name);
            report += &format!("[+]{name} excluded: ok\n");
        } else if test.passes(plane, name).await {
            report += &format!("[+]{name} ok\n");
        } else {
            failed = true;
            report += &format!("[-]{name} failed: reason withheld\n");
        }
    }
    if !excluded.is_empty() {
        let unknown: Vec<String> = excluded.iter().map(|it| quote(it)).collect();
        let unknown = unknown.join(", ");
        report +=
            &format!("warn: some health checks cannot be excluded: no matches for {unknown}\n");
    }
    if failed {
        return response::nosniff_text(500, &format!("{report}{which} check failed\n"));
    }
    if query.get("verbose").is_some() {
        return response::nosniff_text(200, &format!("{report}{which} check passed\n"));
    }
    response::nosniff_text(200, "ok")
}

impl Test {
    async fn passes(&self, plane: &Plane, name: &str) -> bool {
        match self {
            Self::State(test) => test(plane),
            Self::Store => is_store_healthy(plane).await,
            Self::Other(check) => {
                let result = check();
                if let Err(why) = &result {
                    tracing::info!(why, "health check {name} failed");
                }
                result.is_ok()
            }
        }
    }
}

/// A disk that hangs recovers without a restart, but upstream's `/livez` has this check, too: it
/// reads from etcd, whose reads wait for the disk.
async fn is_store_healthy(plane: &Plane) -> bool {
    let health = plane.storage.store.check_health(STORE_TIMEOUT).await;
    if let Err(error) = &health {
        tracing::info!(error = error.with_causes(), "health check etcd failed");
    }
    health.is_ok()
}
