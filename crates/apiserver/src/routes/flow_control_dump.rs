//! `/debug/api_priority_and_fairness/…`: dumps of the priority levels, queues and requests.

use http::Response;

use crate::http::body::Body;
use crate::http::response;
use crate::plane::Plane;
use crate::request::Query;

/// Responds with the dump of this name. Without priority and fairness there is none.
pub(crate) fn dump(plane: &Plane, name: &str, query: &Query) -> Response<Body> {
    let now = plane.storage.clock.now_unix_nanos();
    let fair = plane.flow_control.priority_and_fairness();
    match fair.and_then(|it| it.dump(name, query, now)) {
        Some(table) => response::text(200, &table),
        None => response::page_not_found(),
    }
}
