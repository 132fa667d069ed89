//! `create`: creates the objects of manifests, or one that is described by flags.

#![allow(clippy::doc_markdown, reason = "the documentation of flags is their help text")]

mod configmap;
mod secret;
mod workload;
mod rbac;
mod service;
mod simple;
mod token;

use clap::{Subcommand, ValueEnum};

use crate::error::Error;
use crate::flags::with_bool_values;
use crate::io::Io;
use crate::manifests::{FileArgs, list_of};
use crate::mutation::{DryRun, MutationArgs, Results, create};
use crate::session::Session;
use crate::targets::{SelectorArgs, of_files};
use crate::verbs::apply::{manifest, with_annotation};
use machinery::Value;
use machinery::fields::text;

/// Create objects from manifests, or one from flags
#[derive(Debug, clap::Args)]
#[command(
    mut_args(with_bool_values),
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = EXAMPLES
)]
pub struct CreateArgs {
    #[command(subcommand)]
    generator: Option<Generator>,
    #[command(flatten)]
    from_files: FromFilesArgs,
}

#[derive(Debug, clap::Args)]
#[command(mut_args(with_bool_values))]
struct FromFilesArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    selectors: SelectorArgs,
    /// Keep the manifest in an annotation, for `apply`
    #[arg(long)]
    save_config: bool,
    /// How the server treats unknown fields
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "strict",
        default_missing_value = "strict")]
    validate: Validate,
    #[command(flatten)]
    mutation: MutationArgs,
}

/// How the server treats unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
pub(crate) enum Validate {
    /// They are errors.
    #[value(alias = "true")]
    Strict,
    /// They cause warnings.
    Warn,
    /// They are dropped.
    #[value(alias = "false")]
    Ignore,
}

impl Validate {
    /// The value of the request's parameter.
    pub(crate) fn level(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Warn => "Warn",
            Self::Ignore => "Ignore",
        }
    }
}

const EXAMPLES: &str = "Examples:
  kubectl create -f web.yaml
  kubectl create deployment web --image nginx --replicas 2
  kubectl create configmap settings --from-literal colour=blue --from-file app.conf
  kubectl create rolebinding view --clusterrole view --user jane";

/// A kind that is described by flags.
#[derive(Debug, Subcommand)]
enum Generator {
    #[command(visible_alias = "cm")]
    Configmap(configmap::ConfigMapArgs),
    #[command(subcommand)]
    Secret(secret::SecretArgs),
    #[command(visible_alias = "ns")]
    Namespace(simple::NamespaceArgs),
    #[command(visible_alias = "deploy")]
    Deployment(workload::DeploymentArgs),
    Job(workload::JobArgs),
    #[command(visible_alias = "cj")]
    Cronjob(workload::CronJobArgs),
    #[command(visible_alias = "sa")]
    Serviceaccount(simple::ServiceAccountArgs),
    Role(rbac::RoleArgs),
    Rolebinding(rbac::RoleBindingArgs),
    Clusterrole(rbac::ClusterRoleArgs),
    Clusterrolebinding(rbac::ClusterRoleBindingArgs),
    #[command(subcommand, visible_alias = "svc")]
    Service(service::ServiceArgs),
    #[command(visible_alias = "resourcequota")]
    Quota(simple::QuotaArgs),
    Token(token::TokenArgs),
}

impl CreateArgs {
    /// Runs the verb.
    pub(crate) async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        match self.generator {
            None => self.from_files.run(session, io).await,
            Some(Generator::Configmap(it)) => it.run(session, io).await,
            Some(Generator::Secret(it)) => it.run(session, io).await,
            Some(Generator::Namespace(it)) => it.run(session, io).await,
            Some(Generator::Deployment(it)) => it.run(session, io).await,
            Some(Generator::Job(it)) => it.run(session, io).await,
            Some(Generator::Cronjob(it)) => it.run(session, io).await,
            Some(Generator::Serviceaccount(it)) => it.run(session, io).await,
            Some(Generator::Role(it)) => it.run(session, io).await,
            Some(Generator::Rolebinding(it)) => it.run(session, io).await,
            Some(Generator::Clusterrole(it)) => it.run(session, io).await,
            Some(Generator::Clusterrolebinding(it)) => it.run(session, io).await,
            Some(Generator::Service(it)) => it.run(session, io).await,
            Some(Generator::Quota(it)) => it.run(session, io).await,
            Some(Generator::Token(it)) => it.run(session, io).await,
        }
    }
}

impl FromFilesArgs {
    async fn run(self, session: &Session, io: &mut Io) -> Result<(), Error> {
        if self.files.is_empty() {
            return Err(Error::message("must specify one of -f and -k"));
        }
        let mut results = self.mutation.results(io)?;
        let targets = of_files(session, io, &self.files).await.map_err(|error| match error {
            Error::Message(text) if text.starts_with("no objects passed") => {
                Error::message("no objects passed to create")
            }
            other => other,
        })?;
        let mut errors = Vec::new();
        let mut created = Vec::new();
        for target in &targets {
            let mut object = manifest(target).clone();
            if self.save_config {
                object = with_annotation(&object);
            }
            if self.mutation.dry_run() != DryRun::Client {
                let mut query = self.mutation.query("kubectl-create");
                query.push(("fieldValidation", self.validate.level().to_owned()));
                let collection = target.resource.collection(target.namespace.as_deref());
                let source = target.manifest.as_ref().map_or("", |it| &it.source);
                match create(session, &collection, &query, &object).await {
                    Ok(answer) => object = answer,
                    Err(error) => {
                        errors.push(error.in_step(&format!("error when creating {source:?}")));
                        continue;
                    }
                }
            }
            if results.prints_objects() && targets.len() > 1 {
                created.push(object);
            } else {
                results.print(io, &object, "created")?;
            }
        }
        if !created.is_empty() {
            results.print(io, &list_of(&created), "")?;
        }
        Error::all(errors)
    }
}

/// The flags of all kinds that are described by flags.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_args(with_bool_values))]
pub(super) struct GeneratorArgs {
    /// Keep the object in an annotation, for `apply`
    #[arg(long)]
    save_config: bool,
    /// How the server treats unknown fields
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value = "strict",
        default_missing_value = "strict", hide_short_help = true)]
    validate: Validate,
    #[command(flatten)]
    mutation: MutationArgs,
}

impl GeneratorArgs {
    /// Creates an object that flags have described, and prints it. `failed` begins the error, if
    /// kubectl's own has such a beginning.
    async fn create(
        &self,
        session: &Session,
        io: &mut Io,
        mut object: Value,
        failed: &str,
    ) -> Result<(), Error> {
        let mut results: Results = self.mutation.results(io)?;
        results.printer.is_typed = true;
        let (version, kind) =
            (text(&object, "apiVersion").to_owned(), text(&object, "kind").to_owned());
        let (version, kind) = (version.as_str(), kind.as_str());
        let discovery = session.discovery().await?;
        let resource = discovery.of_kind(version, kind).cloned().ok_or_else(|| {
            Error::message(format!("no matches for kind {kind:?} in version {version:?}"))
        })?;
        if resource.is_namespaced && session.is_namespace_given {
            object["metadata"]["namespace"] = session.namespace.as_str().into();
        }
        if let Some(ty) = types::of_kind(version, kind) {
            // The object as a program in Go would write it, with the fields that are never omitted.
            let written = types::normalize(ty, &mut object, &mut |_| {});
            written.map_err(|error| Error::message(error.to_string()))?;
        }
        if self.save_config {
            object = with_annotation(&object);
        }
        if self.mutation.dry_run() != DryRun::Client {
            let mut query = self.mutation.query("kubectl-create");
            query.push(("fieldValidation", self.validate.level().to_owned()));
            let collection = resource.collection(Some(&session.namespace));
            let created = create(session, &collection, &query, &object).await;
            object = created.map_err(|error| match error {
                Error::Server(status) if !failed.is_empty() => {
                    Error::message(format!("{failed}{}", status.message))
                }
                error => error,
            })?;
        }
        results.print(io, &object, "created")
    }
}

/// Splits `key=value`; the error names the flag.
fn key_value<'a>(pair: &'a str, what: &str) -> Result<(&'a str, &'a str), Error> {
    pair.split_once('=')
        .filter(|it| !it.0.is_empty())
        .ok_or_else(|| Error::message(format!("invalid {what} source {pair}, expected key=value")))
}
