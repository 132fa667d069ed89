//! The basis of all other crates: time, randomness, tasks and retries, all passed in by the caller,
//! files that are written atomically, amounts that users share, limits of logs, and the causes of errors.
//!
//! Nothing here is global. Two planes in one process have a [`Clock`], an [`Entropy`] and a
//! [`Tasks`] each, so a test controls the time of one plane, replays its seed, and verifies that all
//! of its tasks have ended.

mod clock;
mod entropy;
mod tasks;
mod backoff;
mod private_files;
mod offload;
mod held;
mod causes;
mod shares;
mod log_limit;

pub use backoff::Backoff;
pub use causes::{causes, message_with_causes};
pub use clock::{Clock, ClockInstant, Sleep, Timestamp};
pub use entropy::Entropy;
pub use held::{Held, blocking_io, while_held};
pub use log_limit::LogLimit;
pub use offload::{Offload, blocking};
pub use private_files::{
    create_private_directory, open_private, restrict_access, sync_parent_directory, write_private,
};
pub use shares::{Share, Shares};
pub use tasks::{Tasks, UncleanStop};
