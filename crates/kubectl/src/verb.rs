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

/// A verb with its flags, and the flags that every verb has.
#[derive(Debug, clap::Args)]
pub struct Invocation<A: clap::Args> {
    #[command(flatten)]
    args: A,
    #[command(flatten)]
    global: GlobalArgs,
}

/// A verb of kubectl.
#[derive(Debug, clap::Subcommand)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the documentation of the arguments is the help of the verb")]
pub enum Verb {
    Get(Box<Invocation<GetArgs>>),
    Describe(Box<Invocation<DescribeArgs>>),
    Explain(Box<Invocation<ExplainArgs>>),
    Create(Box<Invocation<CreateArgs>>),
    Apply(Box<Invocation<ApplyArgs>>),
    Delete(Box<Invocation<DeleteArgs>>),
    Diff(Box<Invocation<DiffArgs>>),
    Edit(Box<Invocation<EditArgs>>),
    Patch(Box<Invocation<PatchArgs>>),
    Scale(Box<Invocation<ScaleArgs>>),
    Label(Box<Invocation<LabelArgs>>),
    Annotate(Box<Invocation<AnnotateArgs>>),
    Logs(Box<Invocation<LogsArgs>>),
    Rollout(Box<Invocation<RolloutArgs>>),
    Set(Box<Invocation<SetArgs>>),
    Wait(Box<Invocation<WaitArgs>>),
    ApiResources(Box<Invocation<ApiResourcesArgs>>),
    ApiVersions(Box<Invocation<ApiVersionsArgs>>),
    ClusterInfo(Box<Invocation<ClusterInfoArgs>>),
    Config(Box<Invocation<ConfigArgs>>),
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
