//! The basis of all other crates: time, randomness, tasks and retries, all passed in by the caller,
//! files that are written atomically, amounts and threads that users share, limits of logs, the causes
//! of errors, and the escape of control characters.
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
mod thread_shares;
mod causes;
mod escape_controls;
mod shares;
mod log_limit;

pub use backoff::Backoff;
pub use causes::{causes, message_with_causes, push_cause};
pub use clock::{Clock, ClockInstant, Sleep, Timestamp};
pub use entropy::Entropy;
pub use escape_controls::escape_controls;
pub use held::{Held, blocking_io, while_held};
pub use log_limit::LogLimit;
pub use offload::{Offload, blocking};
pub use private_files::{
    create_private_directory, open_private, remove_interrupted_writes, restrict_access,
    sync_parent_directory, write_private,
};
pub use shares::{Share, Shares};
pub use tasks::{Tasks, UncleanStop};
pub use thread_shares::{ThreadShare, Threads, WithinShare};
