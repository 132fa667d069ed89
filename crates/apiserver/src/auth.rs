//! Who sends a request, as whom, whether they may, and the record of it.

pub mod authentication;
pub mod impersonation;
pub mod authorization;
pub(crate) mod audit;
