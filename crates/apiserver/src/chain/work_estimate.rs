//! The seats of a request in flow control, by the work that it is estimated to be.
//!
//! A list has seats for the size of its objects. A write has one seat, and keeps it or more of them
//! after its response if its event is sent to many watches.
//!
//! Upstream: `util/flowcontrol/request/list_work_estimator.go`, with the size of objects, and
//! `mutating_work_estimator.go`

use std::time::Duration;

use crate::flow_control::{FlowSchema, WorkEstimate};
use crate::plane::Plane;
use crate::request::{Query, RequestInfo, Verb};

/// The size of the objects for which a list has one seat.
const BYTES_PER_SEAT: usize = 100_000;

/// The size of objects beyond which a list has no more seats, since it is sent in chunks.
const MAX_BYTES: usize = 1_000_000;

/// The number of watches for which a write has one seat after its response.
const WATCHES_PER_SEAT: usize = 10;

/// The time for which a write has these seats.
const EVENT_DURATION: Duration = Duration::from_millis(5);

/// The maximum number of seats of a write.
const MAX_WRITE_SEATS: usize = 10;

/// The work of a request, with no more than `max` seats.
pub(super) fn estimate(
    plane: &Plane,
    schema: Option<&FlowSchema>,
    info: &RequestInfo,
    query: &Query,
    max: usize,
) -> WorkEstimate {
    // Upstream: a token for a service account is not stored, and has no event.
    let is_stored = info.resource.as_ref().is_some_and(|it| it.subresource != "token");
    if !info.verb.is_read_only() && is_stored {
        let watches = plane.flow_control.watches.interested(info);
        schema.inspect(|it| it.observe_watches(watches));
        return write(watches, max);
    }
    WorkEstimate::of_seats(list_seats(plane, info, query, max))
}

/// The work of a write whose event is sent to this many watches. The work after the response has fewer
/// seats for a longer time if there are many watches.
fn write(watches: usize, max: usize) -> WorkEstimate {
    if watches < WATCHES_PER_SEAT {
        return WorkEstimate::of_seats(1);
    }
    let needed = watches.div_ceil(WATCHES_PER_SEAT);
    let final_seats = needed.min(max.clamp(1, MAX_WRITE_SEATS));
    let count = |seats: usize| u32::try_from(seats).unwrap_or(u32::MAX);
    let additional_latency = EVENT_DURATION.saturating_mul(count(needed)) / count(final_seats);
    WorkEstimate { seats: 1, final_seats, additional_latency }
}

/// The seats of a request that is not a write, from 1 to `max`.
fn list_seats(plane: &Plane, info: &RequestInfo, query: &Query, max: usize) -> usize {
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
    size_estimate(objects, bytes, listed).min(max).max(1)
}

/// The seats for `listed` of `objects` objects, which have `bytes` bytes together.
fn size_estimate(objects: usize, bytes: usize, listed: usize) -> usize {
    let average = bytes.checked_div(objects).unwrap_or(0);
    average.saturating_mul(listed).min(MAX_BYTES).div_ceil(BYTES_PER_SEAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_seat_for_each_100_kilobytes_up_to_ten() {
        assert_eq!(size_estimate(0, 0, 0), 0);
        assert_eq!(size_estimate(10, 10_000, 10), 1);
        assert_eq!(size_estimate(100, 250_000, 100), 3);
        assert_eq!(size_estimate(100, 250_000, 10), 1, "a page");
        assert_eq!(size_estimate(1000, 500_000_000, 1000), 10);
    }
    #[test]
    fn a_write_has_a_seat_for_each_ten_watches_after_its_response() {
        let after = |watches, max| {
            let estimate = write(watches, max);
            assert_eq!(estimate.seats, 1);
            (estimate.final_seats, estimate.additional_latency.as_millis())
        };
        assert_eq!(after(9, 100), (0, 0));
        assert_eq!(after(10, 100), (1, 5));
        assert_eq!(after(95, 100), (10, 5));
        assert_eq!(after(1000, 100), (10, 50), "longer instead of wider");
        assert_eq!(after(1000, 4), (4, 125), "the level has few seats");
    }
}
