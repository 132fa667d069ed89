//! HTTP primitives for all other modules: headers, bodies, negotiation, compression.

pub(crate) mod headers;
pub(crate) mod deadline;
pub(crate) mod request_body;
pub(crate) mod negotiation;
pub mod body;
pub(crate) mod response;
pub(crate) mod compression;
