//! `/metrics`: all metrics in the text format of Prometheus.

mod objects;

use http::Response;

use crate::http::body::Body;
use crate::http::response;
use crate::plane::Plane;

/// Serves all metrics.
pub(crate) fn metrics(plane: &Plane) -> Response<Body> {
    let catalog = plane.storage.catalog.load();
    let text = plane.metrics.encode(|text| objects::append(text, &catalog));
    response::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
}
