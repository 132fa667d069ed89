//! The limit of open files, which also limits connections: raised to what the system allows.
//!
//! Most systems start programs with a soft limit of 1024, for the sake of those that use
//! `select(2)`, and a hard limit far above it. Go's runtime does the same for kube-apiserver.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. If the system refuses, the soft limit stays.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
}
