//! The objects of the store and their recent history in memory ([`watch_cache`]).

pub(crate) mod watch_cache;
