//! `/healthz`, `/livez`, `/readyz`: whether the server is well, as a whole or check by check.

use crate::answer;
use crate::body::Body;
use crate::plane::Plane;
use crate::request::Query;
use http::Response;
use std::sync::atomic::Ordering;

type Check = (&'static str, fn(&Plane) -> bool);

const PING: Check = ("ping", |_| true);
const READY: Check = ("poststarthook/bootstrap", |plane| plane.ready.load(Ordering::Acquire));
const CACHE: Check = ("watch-cache-sync", |plane| plane.cache.applied() > 0);
const STOPPING: Check = ("shutdown", |plane| !plane.tasks.is_stopping());

/// Answers for one of the three, or for a single check of it.
pub(crate) fn health(plane: &Plane, which: &str, rest: &[&str], query: &Query) -> Response<Body> {
    let checks: &[Check] = match which {
        "livez" => &[PING],
        "readyz" => &[PING, READY, CACHE, STOPPING],
        _ => &[PING, READY],
    };
    let path = rest.join("/");
    let excluded: Vec<&str> = query.all("exclude").collect();
    let asked: Vec<&Check> = checks
        .iter()
        .filter(|(name, _)| path.is_empty() || *name == path)
        .filter(|(name, _)| !excluded.contains(name))
        .collect();
    if asked.is_empty() && !path.is_empty() {
        return answer::page_not_found();
    }
    let mut report = String::new();
    let mut failed = false;
    for (name, check) in asked {
        if check(plane) {
            report += &format!("[+]{name} ok\n");
        } else {
            failed = true;
            report += &format!("[-]{name} failed: reason withheld\n");
        }
    }
    if failed {
        return answer::plain(500, &format!("{report}{which} check failed\n"));
    }
    if query.get("verbose").is_some() {
        return answer::plain(200, &format!("{report}{which} check passed\n"));
    }
    answer::plain(200, "ok")
}
