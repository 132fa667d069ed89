//! The limit of the size of files (`ulimit -f`): a write beyond it fails, as on a full disk.
//!
//! The system also sends SIGXFSZ, which by default ends the process.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Lets the process survive such a write from now on.
pub(crate) fn survive() -> io::Result<()> {
    // It stays caught when the receiver is dropped.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
