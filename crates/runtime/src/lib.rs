//! What an operator imports: custom kinds as Rust types, and the tools of a reconcile function.

pub mod derived;
pub mod versions;
pub mod informed;
pub mod apply;
pub mod conditions;
pub mod finalizer;
pub mod owner;
pub mod recorder;
pub mod webhook;

pub use derive::{Versions, resource, schema};
pub use informed::Informed;
