//! What the fuzz targets share: values made out of bytes ([`values`]), which can be made large
//! ([`amplify`](mod@amplify)), objects of built-in kinds ([`objects`]), a server to send them to
//! ([`server`]), and the bounds on time and memory that every input must keep to ([`bounds`]).

pub mod amplify;
pub mod bounds;
pub mod objects;
pub mod server;
pub mod values;

pub use bounds::{bounded, is_small};
pub use values::{SCHEMA_WORDS, object, value};
