//! The configuration files of users: they are decoded strictly.

pub(crate) mod strict_decoding;
