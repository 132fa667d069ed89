//! The server's state in memory: the served resources ([`catalog`]), their objects and recent
//! history ([`watch_cache`]), and the values computed from these objects.

pub(crate) mod storage;
pub(crate) mod catalog;
pub(crate) mod creations;
pub(crate) mod documents;
pub(crate) mod hooks;
pub(crate) mod watch_cache;
pub(crate) mod conversion;
pub(crate) mod service_resolver;
pub(crate) mod snapshot_value;
pub(crate) mod parsed_objects;
