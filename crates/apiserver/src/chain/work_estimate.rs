//! The number of seats of a request in flow control, by the work that it is estimated to be.
//!
//! Upstream: `util/flowcontrol/request/list_work_estimator.go`, with the size of objects

use crate::plane::Plane;
use crate::request::{Query, RequestInfo, Verb};

/// The size of the objects for which a list has one seat.
const BYTES_PER_SEAT: usize = 100_000;

/// The size of objects beyond which a list has no more seats, since it is sent in chunks.
const MAX_BYTES: usize = 1_000_000;

/// The seats of a request, from 1 to `max`.
pub(super) fn seats(plane: &Plane, info: &RequestInfo, query: &Query, max: usize) -> usize {
    let is_list = match info.verb {
        Verb::List => true,
        // A watch from a revision sends no objects at the beginning.
        Verb::Watch => {
            query.flag("sendInitialEvents") || matches!(query.text("resourceVersion"), "" | "0")
        }
        _ => false,
    };
    let Some(path) = info.resource.as_ref().filter(|_| is_list) else { return 1 };
    // The server of an aggregated API estimates its work itself.
    let Some((objects, bytes)) = plane
        .storage
        .catalog
        .load()
        .resource(&path.group, &path.resource)
        .map(|it| it.cache.size())
    else {
        return 1;
    };
    let listed = match query.text("limit").parse::<usize>() {
        _ if !info.object_name().is_empty() => 1,
        Ok(limit) if limit > 0 => limit.min(objects),
        _ => objects,
    };
    estimate(objects, bytes, listed).min(max).max(1)
}

/// The seats for `listed` of `objects` objects, which have `bytes` bytes together.
fn estimate(objects: usize, bytes: usize, listed: usize) -> usize {
    let average = bytes.checked_div(objects).unwrap_or(0);
    average.saturating_mul(listed).min(MAX_BYTES).div_ceil(BYTES_PER_SEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_seat_for_each_100_kilobytes_up_to_ten() {
        assert_eq!(estimate(0, 0, 0), 0);
        assert_eq!(estimate(10, 10_000, 10), 1);
        assert_eq!(estimate(100, 250_000, 100), 3);
        assert_eq!(estimate(100, 250_000, 10), 1, "a page");
        assert_eq!(estimate(1000, 500_000_000, 1000), 10);
    }
}
