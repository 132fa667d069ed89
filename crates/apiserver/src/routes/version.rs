//! `/version`: the Kubernetes version of the served API, and the build of the server.

use http::Response;
use http::request::Parts as Head;
use serde::Serialize;

use crate::http::body::Body;
use crate::http::negotiation::{EndpointRestrictions, negotiate};
use crate::http::response;
use crate::request::Query;
use machinery::Status;

/// The minor version of Kubernetes whose API is served.
pub(crate) const MINOR: &str = "35";

/// Serves the version.
pub(crate) fn version(head: &Head, query: &Query) -> Result<Response<Body>, Status> {
    negotiate(&head.headers, query, EndpointRestrictions::DOCUMENT)?;
    let sampan = env!("CARGO_PKG_VERSION");
    let info = VersionInfo {
        major: "1",
        minor: MINOR,
        emulation_major: "1",
        emulation_minor: MINOR,
        min_compatibility_major: "1",
        // Upstream: the minor version before the emulated one.
        min_compatibility_minor: "34",
        git_version: format!("v1.{MINOR}.0+sampan-{sampan}"),
        git_commit: option_env!("SAMPAN_COMMIT").unwrap_or("unknown"),
        git_tree_state: "clean",
        build_date: option_env!("SAMPAN_BUILD_DATE").unwrap_or("1970-01-01T00:00:00Z"),
        go_version: "none",
        compiler: "rustc",
        platform: platform(),
    };
    Ok(response::indented(&info))
}

/// The document, with its fields in output order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// The platform in Go's notation, which clients expect.
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
