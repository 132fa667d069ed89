//! The endpoints: one file per verb, generic over kinds, and the subresources whose kind differs
//! from that of their object.

pub(crate) mod context;
pub(crate) mod decode;
pub(crate) mod object_response;
pub(crate) mod protobuf;
pub(crate) mod table;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod watch;
pub(crate) mod create;
pub(crate) mod update;
pub(crate) mod patch;
pub(crate) mod apply;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod scale;
pub(crate) mod subresource;
mod binding;
mod component_status;
pub(crate) mod connect;
pub(crate) mod eviction;
pub(crate) mod token_request;
pub(crate) mod unstored;
mod access_review;
mod continue_token;
mod selection;
