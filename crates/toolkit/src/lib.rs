//! The toolkit: from an empty folder to a running operator.
//!
//! | command | |
//! |---|---|
//! | [`InitArgs`] | `sampan init`: a project |
//! | [`CreateApiArgs`] | `sampan create api`: a kind, or another version of one |
//! | [`CreateWebhookArgs`] | `sampan create webhook` |
//! | [`AddControllerArgs`] | `sampan add controller` |
//! | [`ManifestsArgs`] | `sampan manifests`: CRDs, roles, Deployment, webhooks |
//! | [`GenerateArgs`] | `sampan generate`: Rust types for a CRD that exists |
//! | [`InstallArgs`], [`UninstallArgs`] | `sampan install`, `sampan uninstall`: the CRDs in a cluster |
//! | [`RunArgs`] | `sampan run`: the operator on this machine, restarted after each change |
//! | [`ImageBuildArgs`], [`ImagePushArgs`], [`ImageLoginArgs`] | `sampan image`: an OCI image of the operator, in a registry |
//! | [`DeployArgs`], [`UndeployArgs`] | `sampan deploy`, `sampan undeploy`: the operator in a cluster |
//! | [`DoctorArgs`] | `sampan doctor`: what is missing on this machine |
//!
//! A command is the arguments and a function `run`, which prints to an [`Output`].

mod output;
mod names;
mod source;
mod project;
mod project_args;
mod templates;
mod marks;
mod change_set;
mod init;
mod create_api;
mod create_webhook;
mod add_controller;
mod cargo;
mod access;
mod deployment;
mod bundle;
mod manifests;
mod cluster;
mod crd_check;
mod install;
mod deploy;
mod run;
mod image;
mod doctor;
mod generate;

pub use add_controller::AddControllerArgs;
pub use bundle::Format;
pub use cluster::ClusterArgs;
pub use create_api::CreateApiArgs;
pub use create_webhook::CreateWebhookArgs;
pub use deploy::{DeployArgs, UndeployArgs};
pub use doctor::{DoctorArgs, ReportFormat};
pub use generate::GenerateArgs;
pub use image::{
    Base, ImageBuildArgs, ImageLoginArgs, ImagePushArgs, Libc, Platform, Reference, RegistryArgs,
};
pub use init::InitArgs;
pub use install::{InstallArgs, UninstallArgs};
pub use manifests::{DeploymentArgs, ManifestsArgs};
pub use output::Output;
pub use project_args::{BuildArgs, KindArgs, ProjectArgs};
pub use run::RunArgs;
pub use source::SourceArgs;
