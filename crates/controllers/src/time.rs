//! Conversions between the plane's clock and the times of API objects.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff;

use keel::{Clock, Timestamp};

/// The present time, as API objects contain it: in whole seconds.
pub(crate) fn now(clock: &Clock) -> Time {
    from_timestamp(clock.now())
}

/// A time in whole seconds.
pub(crate) fn from_timestamp(timestamp: Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(timestamp.seconds()).unwrap_or_default())
}

/// The time since `earlier`; zero if that is in the future.
pub(crate) fn since(clock: &Clock, earlier: &Time) -> Duration {
    clock.now().since(to_timestamp(earlier))
}

/// A time of an API object as one of the clock.
pub(crate) fn to_timestamp(time: &Time) -> Timestamp {
    let nanos = u64::try_from(time.0.subsec_nanosecond()).unwrap_or_default();
    Timestamp::from_seconds(time.0.as_second()) + Duration::from_nanos(nanos)
}
