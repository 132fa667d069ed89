//! [`Deadline`]: the time by which a request must be answered, as an extension of the request.

use http::request::Parts;
use tokio::time::Instant;

/// See the [module documentation](self).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(pub Instant);

impl Deadline {
    /// The deadline of a request; None before the chain has set it.
    pub(crate) fn of(head: &Parts) -> Option<Instant> {
        head.extensions.get().map(|Self(deadline)| *deadline)
    }
}
