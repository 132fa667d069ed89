//! [`ReflectorStatus`]: the progress and the failures of a reflector.

use keel::Timestamp;

/// The progress of a [`Reflector`](super::Reflector), for readiness checks and metrics.
///
/// ```
/// use informer::{ReflectorPhase, ReflectorStatus};
///
/// fn readiness(status: &ReflectorStatus) -> Result<(), String> {
///     match (status.phase, &status.last_error) {
///         (ReflectorPhase::Watching, _) => Ok(()),
///         (_, Some(error)) => Err(error.clone()),
///         (phase, None) => Err(format!("{phase:?}")),
///     }
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReflectorStatus {
    /// Whether the store is up to date.
    pub phase: ReflectorPhase,
    /// The number of lists that replaced the content of the store. It has synced after the first.
    pub lists: u64,
    /// The number of watches that were opened.
    pub watches: u64,
    /// The number of lists and watches that failed.
    pub failures: u64,
    /// The last failure, until a watch is opened. A watch that is closed early counts from the second
    /// time in a row on.
    pub last_error: Option<String>,
    /// Whether the last failure was that the server does not have the resource, whose CRD may not be
    /// installed yet.
    pub is_absent: bool,
    /// The time of the first failure since a watch was last opened.
    pub failing_since: Option<Timestamp>,
    /// The number of objects that were left out since they have no name or cannot be read.
    pub bad_items: u64,
    /// The state that the store shows. Events change it without waking those that wait for a change
    /// of the status.
    pub resource_version: Option<String>,
}

/// The phase of a [`Reflector`](super::Reflector).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReflectorPhase {
    /// A list is due or under way; the store has missed events, or is empty.
    #[default]
    Listing,
    /// The store has a list, and no watch is open; events may be late.
    Connecting,
    /// A watch is open.
    Watching,
    /// The source was stopped, and the reflector has ended.
    Stopped,
}
