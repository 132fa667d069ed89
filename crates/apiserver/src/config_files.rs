//! The configuration files of users: they are decoded strictly, and read again while the plane runs.

pub(crate) mod followed;
pub(crate) mod strict_decoding;
