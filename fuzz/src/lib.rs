//! Helpers of the fuzz targets: values from bytes ([`values`]), their amplification
//! ([`amplify`](mod@amplify)), objects of built-in kinds ([`objects`]), a server for requests
//! ([`server`]), and the bounds of time and memory of every input ([`bounds`]).

pub mod amplify;
pub mod bounds;
pub mod objects;
pub mod server;
pub mod values;

pub use bounds::{bounded, is_small};
pub use values::{SCHEMA_WORDS, object, value};
