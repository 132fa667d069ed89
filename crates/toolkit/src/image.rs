//! `sampan image`: the operator as a container image, without Docker.
//!
//! ```text
//! cargo build ─▶ program ─┐
//! C library, if dynamic ──┼─▶ layers ─▶ target/sampan/image (an OCI image layout) ─▶ registry
//! CA certificates, users ─┘                │                                            │
//!                                   --output FILE.tar|DIR            target/sampan/pushed.json, for
//!                                                                    `sampan deploy`
//! ```
//!
//! An image depends only on the program and on the files that are copied, not on the time: the same
//! input has the same digest.

mod digest;
mod archive;
mod reference;
mod platform;
mod elf;
mod libraries;
mod program;
mod root_files;
mod layout;
mod base;
mod config;
mod staging;
mod build;
mod credentials;
mod challenge;
mod http_client;
mod registry;
mod registry_args;
mod push;
mod pushed;
mod login;

pub use base::Base;
pub use build::ImageBuildArgs;
pub use login::ImageLoginArgs;
pub use platform::{Libc, Platform};
pub use push::ImagePushArgs;
pub use reference::Reference;
pub use registry_args::RegistryArgs;

pub(crate) use libraries::find_ca_certificates;
pub(crate) use program::{is_in_path, musl_obstacle};
pub(crate) use pushed::pushed_image;
pub(crate) use reference::check_registry;

/// The image that was built last, in the project.
const IMAGE_FOLDER: &str = "target/sampan/image";
