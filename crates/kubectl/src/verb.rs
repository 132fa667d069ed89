//! [`Verb`]: the subcommands, and [`run`], which runs one.

use std::process::ExitCode;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::error::Error;
use crate::global::GlobalArgs;
use crate::io::Io;
use crate::session::Session;
use crate::verbs::api_resources::{ApiResourcesArgs, ApiVersionsArgs};
use crate::verbs::apply::ApplyArgs;
use crate::verbs::config::ConfigArgs;
use crate::verbs::create::CreateArgs;
use crate::verbs::delete::DeleteArgs;
use crate::verbs::describe::DescribeArgs;
use crate::verbs::diff::DiffArgs;
use crate::verbs::edit::EditArgs;
use crate::verbs::explain::ExplainArgs;
use crate::verbs::get::GetArgs;
use crate::verbs::label::{AnnotateArgs, LabelArgs};
use crate::verbs::logs::LogsArgs;
use crate::verbs::patch::PatchArgs;
use crate::verbs::rollout::RolloutArgs;
use crate::verbs::scale::ScaleArgs;
use crate::verbs::set::SetArgs;
use crate::verbs::version::{ClusterInfoArgs, VersionArgs};
use crate::verbs::wait::WaitArgs;

// A verb with its flags, and the flags that every verb has. A documentation comment would become the
// help of each verb.
#[allow(missing_docs, reason = "see above")]
#[derive(Debug, clap::Args)]
pub struct Invocation<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    global: GlobalArgs,
}

/// A verb of kubectl.
#[derive(Debug, clap::Subcommand)]
#[command(defer = true)]
#[non_exhaustive]
pub enum Verb {
    /// Display one or many objects
    Get(Box<Invocation<GetArgs>>),
    /// Show objects with their conditions and events
    Describe(Box<Invocation<DescribeArgs>>),
    /// Describe the fields of a kind
    Explain(Box<Invocation<ExplainArgs>>),
    /// Create objects from manifests, or one from flags
    Create(Box<Invocation<CreateArgs>>),
    /// Create and change objects so that they are as manifests say
    Apply(Box<Invocation<ApplyArgs>>),
    /// Delete objects
    Delete(Box<Invocation<DeleteArgs>>),
    /// Show what apply would change
    Diff(Box<Invocation<DiffArgs>>),
    /// Change an object in an editor
    Edit(Box<Invocation<EditArgs>>),
    /// Change fields of objects with a patch
    Patch(Box<Invocation<PatchArgs>>),
    /// Set the number of replicas
    Scale(Box<Invocation<ScaleArgs>>),
    /// Set or remove labels
    Label(Box<Invocation<LabelArgs>>),
    /// Set or remove annotations
    Annotate(Box<Invocation<AnnotateArgs>>),
    /// Print the logs of a container
    Logs(Box<Invocation<LogsArgs>>),
    /// Manage the rollouts of workloads
    Rollout(Box<Invocation<RolloutArgs>>),
    /// Set the images of containers
    Set(Box<Invocation<SetArgs>>),
    /// Wait for a condition of objects
    Wait(Box<Invocation<WaitArgs>>),
    /// Print the resources that the server serves
    ApiResources(Box<Invocation<ApiResourcesArgs>>),
    /// Print the versions of the API that the server serves
    ApiVersions(Box<Invocation<ApiVersionsArgs>>),
    /// Print the addresses of the control plane and of services
    ClusterInfo(Box<Invocation<ClusterInfoArgs>>),
    /// Show and change the kubeconfig
    Config(Box<Invocation<ConfigArgs>>),
    /// Print the versions of the client and the server
    Version(Box<Invocation<VersionArgs>>),
}

/// Runs a verb. Its errors are printed, and their exit code returned; only a failure to print is an
/// error of the function.
pub async fn run(verb: Verb, io: &mut Io) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(run_for_code(verb, io).await?))
}

/// Runs a verb, and returns its exit code as a number.
pub(crate) async fn run_for_code(verb: Verb, io: &mut Io) -> anyhow::Result<u8> {
    match dispatch(verb, io).await {
        Ok(()) => Ok(0),
        Err(Error::Output(error)) => {
            Err(anyhow::Error::from(error).context("cannot write to standard output"))
        }
        Err(error) => {
            let text = error.text();
            if !text.is_empty() {
                io.note(&text);
            }
            Ok(error.exit_code())
        }
    }
}

fn dispatch(verb: Verb, io: &mut Io) -> BoxFuture<'_, Result<(), Error>> {
    /// Connects, and runs the arguments of a verb.
    macro_rules! connected {
        ($it:ident) => {
            async move {
                let session = Session::connect(&$it.global, io.notes()).await?;
                $it.args.run(&session, io).await
            }
            .boxed()
        };
    }
    match verb {
        Verb::Get(it) => connected!(it),
        Verb::Describe(it) => connected!(it),
        Verb::Explain(it) => connected!(it),
        Verb::Create(it) => connected!(it),
        Verb::Apply(it) => connected!(it),
        Verb::Delete(it) => connected!(it),
        Verb::Diff(it) => connected!(it),
        Verb::Edit(it) => connected!(it),
        Verb::Patch(it) => connected!(it),
        Verb::Scale(it) => connected!(it),
        Verb::Label(it) => connected!(it),
        Verb::Annotate(it) => connected!(it),
        Verb::Logs(it) => connected!(it),
        Verb::Rollout(it) => connected!(it),
        Verb::Set(it) => connected!(it),
        Verb::Wait(it) => connected!(it),
        Verb::ApiResources(it) => connected!(it),
        Verb::ApiVersions(it) => connected!(it),
        Verb::ClusterInfo(it) => connected!(it),
        Verb::Config(it) => async move { it.args.run(&it.global, io) }.boxed(),
        Verb::Version(it) => async move { it.args.run(&it.global, io).await }.boxed(),
    }
}
