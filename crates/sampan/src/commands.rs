//! The subcommands, one file each: arguments, implementation and output.

pub(crate) mod auth;
pub(crate) mod bench;
pub(crate) mod certs;
pub(crate) mod completion;
pub(crate) mod toolkit;
pub(crate) mod up;
pub(crate) mod user;
