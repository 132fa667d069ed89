//! The built-in types of the API, and the parts of a kind.
//!
//! | module | what it holds |
//! |---|---|
//! | the crate itself | [`Type`] and [`Field`]: fields, protobuf numbers, list types, what Go writes |
//! | [`normalize`](mod@normalize), [`Ordered`] | decoding and encoding of JSON as Go does it for a type |
//! | [`protobuf`] | Kubernetes' protobuf, to and from JSON |
//! | [`strategic`] | strategic merge patches |
//! | [`apply`] | the schemas of server-side apply |
//! | [`openapi`] | the OpenAPI schemas of the built-in types |
//! | [`resource`], [`columns`] | [`Resource`]: names, versions, columns and functions of one kind |
//!
//! ```
//! let pod = types::find("core/v1.Pod").expect("Pods are built in");
//! let spec = pod.field("spec").and_then(|field| field.message()).expect("Pods have a spec");
//! let containers = spec.field("containers").expect("a spec has containers");
//! assert_eq!((containers.number, containers.merge_key()), (2, Some("name")));
//! ```
//!
//! A type has two forms. In JSON it is [`Type::fields`], by name. In protobuf it is [`Type::wire`],
//! by field number; an `inline` field there holds a message whose fields are in the parent in JSON:
//! a `Volume` is written `{"name":…,"emptyDir":{}}` in JSON, but as `name` (1) and a `VolumeSource`
//! (2) in protobuf.
//!
//! The build script turns the table, `tables/*.txt`, into statics without pointers.

mod builtin;
mod bytes;
mod go;
pub mod normalize;
mod ordered;
mod time;
pub mod protobuf;
pub mod strategic;
pub mod apply;
pub mod openapi;
pub mod resource;
pub mod columns;

pub use builtin::{
    Container, Emit, Field, Item, ListType, Package, Type, TypeId, all, find, is_alias, of_kind,
};
pub use normalize::{Error, normalize, normalize_with};
pub use ordered::Ordered;
pub(crate) use ordered::OrderedMap;
pub use resource::{Resource, Strategy};
pub use time::parse_time;
