//! `/version`: the level of the API that is served, and what serves it.

use crate::answer;
use crate::body::Body;
use crate::negotiation::{Offer, negotiate};
use crate::request::Query;
use http::Response;
use http::request::Parts as Head;
use machinery::{Status, json};

/// The level of Kubernetes' API that we serve.
pub(crate) const MINOR: &str = "35";

/// Answers with the version.
pub(crate) fn version(head: &Head, query: &Query) -> Result<Response<Body>, Status> {
    let accepted = negotiate(&head.headers, query, Offer::DOCUMENT)?;
    let sampan = env!("CARGO_PKG_VERSION");
    let document = json!({
        "major": "1", "minor": MINOR,
        "emulationMajor": "1", "emulationMinor": MINOR,
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "34",
        "gitVersion": format!("v1.{MINOR}.0+sampan-{sampan}"),
        "gitCommit": option_env!("SAMPAN_COMMIT").unwrap_or("unknown"),
        "gitTreeState": "clean",
        "buildDate": option_env!("SAMPAN_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
        "goVersion": "none", "compiler": "rustc",
        "platform": platform(),
    });
    Ok(answer::document(200, accepted, &document))
}

/// In Go's words, which are the ones that clients know.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        system => system,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        architecture => architecture,
    };
    format!("{system}/{architecture}")
}
