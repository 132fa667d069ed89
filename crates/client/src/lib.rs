//! The layers below `kube::Client`: the configuration ([`config`]), the transport ([`transport`]),
//! lists and watches for informers ([`list_watch`]), the mapping of kinds to resources
//! ([`rest_mapper`]), and requests without Rust types ([`json_requests`]).
//!
//! ```no_run
//! use informer::{InformerFactory, InformerOptions, Scope};
//! use keel::{Clock, Entropy, Tasks};
//! use machinery::GroupVersion;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//! let client = client::connect(client::infer().await?, &clock)?;
//! let factory = InformerFactory::new(
//!     client::source_of(client),
//!     InformerOptions::default(),
//!     &clock,
//!     &entropy,
//!     &tasks,
//! );
//! let pods = factory.informer(&Scope::all(GroupVersion::new("", "v1"), "pods"));
//! factory.start();
//! factory.wait_for_sync().await?;
//! # drop(pods);
//! # Ok(())
//! # }
//! ```

pub mod config;
mod token_file;
mod dialer;
mod tls_config;
mod connector;
mod gzip;
pub mod transport;
mod error_response;
mod lines;
pub mod list_watch;
pub mod rest_mapper;
pub mod json_requests;

pub use config::{ConfigError, connect, infer};
pub use list_watch::{ClientListWatch, source_of};
pub use rest_mapper::{Mapping, RestMapper, RestMapperError};
pub use transport::Transport;
