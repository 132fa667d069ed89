//! `/metrics`: the counts, in Prometheus' text format.

use crate::endpoints::answer;
use crate::http::body::Body;
use crate::plane::Plane;
use http::Response;

/// Answers with everything that is counted.
pub(crate) fn metrics(plane: &Plane) -> Response<Body> {
    let text = plane.metrics.encode(&plane.catalog.load());
    answer::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
}
