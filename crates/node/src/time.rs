//! Conversions between the plane's clock and the times of API objects.

use keel::Timestamp;
use machinery::timestamp;

/// A time in whole seconds: `2024-05-06T07:08:09Z`.
pub(crate) fn seconds(at: Timestamp) -> String {
    timestamp::format_seconds(at.seconds())
}

/// A time in microseconds, as leases contain it.
pub(crate) fn micros(at: Timestamp) -> String {
    timestamp::format_micros(at.seconds(), at.nanos())
}

/// A time of an API object.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    timestamp::parse(text).map(|(seconds, nanos)| Timestamp::new(seconds, nanos))
}
