//! `/healthz`, `/livez`, `/readyz`: the health checks of the server, together or one by one.

use crate::cache::watch_cache::SyncState;
use crate::http::body::Body;
use crate::http::response;
use crate::plane::Plane;
use crate::request::Query;
use http::Response;
use machinery::field_path::quote;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The age at which an unfinished write makes the store unhealthy. Upstream: the default of
/// `--etcd-healthcheck-timeout` and `--etcd-readycheck-timeout`.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

type Check = (&'static str, fn(&Plane) -> bool);

const PING: Check = ("ping", |_| true);
/// The store accepts writes and finishes them in time.
const STORE: Check = ("etcd", is_store_healthy);
/// Upstream has a second check of the store for readiness, with a separate timeout.
const STORE_READY: Check = ("etcd-readiness", is_store_healthy);
/// Reads and watches are current. A cache that relists is not ready, and recovers without a
/// restart.
const CACHE_SYNCED: Check =
    ("watch-cache", |plane| plane.storage.cache.sync_state() == SyncState::Synced);
/// A cache whose reflector has stopped recovers only after a restart.
const CACHE_RUNNING: Check =
    ("watch-cache", |plane| plane.storage.cache.sync_state() != SyncState::Stopped);
const READY: Check = ("poststarthook/bootstrap", |plane| plane.ready.load(Ordering::Acquire));
const INFORMERS: Check = ("informer-sync", |plane| plane.storage.cache.applied() > 0);
const STOPPING: Check = ("shutdown", |plane| !plane.storage.tasks.is_stopping());

/// Serves one of the three endpoints, or a single check of it.
pub(crate) fn health(plane: &Plane, which: &str, rest: &[&str], query: &Query) -> Response<Body> {
    let checks: &[Check] = match which {
        "livez" => &[PING, STORE, CACHE_RUNNING],
        "readyz" => &[PING, STORE, STORE_READY, CACHE_SYNCED, INFORMERS, READY, STOPPING],
        _ => &[PING, STORE, CACHE_RUNNING, READY],
    };
    let path = rest.join("/");
    if !path.is_empty() {
        return match checks.iter().find(|(name, _)| *name == path) {
            None => response::page_not_found(),
            Some((_, check)) if check(plane) => response::text(200, "ok"),
            Some(_) => response::nosniff_text(500, "internal server error: reason withheld\n"),
        };
    }
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    let mut report = String::new();
    let mut failed = false;
    for (name, check) in checks {
        if excluded.contains(name) {
            excluded.retain(|it| it != name);
            report += &format!("[+]{name} excluded: ok\n");
        } else if check(plane) {
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

/// Whether the store accepts writes and its disk responds. After an I/O error the store rejects
/// writes until a restart. A hanging disk may recover, but upstream's `/livez` fails in this case
/// too: its check reads from etcd, whose reads wait for the disk.
fn is_store_healthy(plane: &Plane) -> bool {
    if let Err(error) = plane.storage.store.check_writable() {
        tracing::info!(error = error.with_causes(), "health check etcd failed");
        return false;
    }
    let age = plane.storage.store.oldest_pending();
    if age >= STORE_TIMEOUT {
        tracing::info!(?age, "health check etcd failed: a write is not finished");
        return false;
    }
    true
}
