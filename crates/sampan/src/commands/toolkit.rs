//! The commands of the toolkit, from `sampan init` to `sampan doctor`.
//!
//! `create` is also a verb of kubectl, so `api` and `webhook` are added to its subcommands.

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::output;
use crate::stop_signals::StopSignals;
use toolkit::{
    AddControllerArgs, CreateApiArgs, CreateWebhookArgs, DeployArgs, DoctorArgs, GenerateArgs,
    ImageBuildArgs, ImageLoginArgs, ImagePushArgs, InitArgs, InstallArgs, ManifestsArgs, Output,
    RunArgs, UndeployArgs, UninstallArgs,
};

/// A command of the toolkit.
#[derive(Debug)]
pub(crate) enum ToolkitCommand {
    Init(Box<InitArgs>),
    CreateApi(Box<CreateApiArgs>),
    CreateWebhook(Box<CreateWebhookArgs>),
    AddController(Box<AddControllerArgs>),
    Manifests(Box<ManifestsArgs>),
    Generate(Box<GenerateArgs>),
    Install(Box<InstallArgs>),
    Uninstall(Box<UninstallArgs>),
    Run(Box<RunArgs>),
    ImageBuild(Box<ImageBuildArgs>),
    ImagePush(Box<ImagePushArgs>),
    ImageLogin(Box<ImageLoginArgs>),
    Deploy(Box<DeployArgs>),
    Undeploy(Box<UndeployArgs>),
    Doctor(Box<DoctorArgs>),
}

/// Adds the commands to those of the program.
pub(crate) fn augment(program: Command) -> Command {
    // `--version` is the version of an API here.
    let command = |name: &'static str| Command::new(name).disable_version_flag(true);
    program
        .subcommand(InitArgs::augment_args(command("init")))
        .subcommand(
            command("add")
                .about("Add a controller to the project")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(AddControllerArgs::augment_args(command("controller"))),
        )
        .subcommand(ManifestsArgs::augment_args(command("manifests")))
        .subcommand(GenerateArgs::augment_args(command("generate")))
        .subcommand(InstallArgs::augment_args(command("install")))
        .subcommand(UninstallArgs::augment_args(command("uninstall")))
        .subcommand(RunArgs::augment_args(command("run")))
        .subcommand(
            command("image")
                .about("Build a container image of the operator, and push it to a registry")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(ImageBuildArgs::augment_args(command("build")))
                .subcommand(ImagePushArgs::augment_args(command("push")))
                .subcommand(ImageLoginArgs::augment_args(command("login"))),
        )
        .subcommand(DeployArgs::augment_args(command("deploy")))
        .subcommand(UndeployArgs::augment_args(command("undeploy")))
        .subcommand(DoctorArgs::augment_args(command("doctor")))
        .mut_subcommand("create", |create| {
            // After those of kubectl, which are added when `create` is called.
            let command = |name| command(name).display_order(100);
            create
                .subcommand(CreateApiArgs::augment_args(command("api")))
                .subcommand(CreateWebhookArgs::augment_args(command("webhook")))
        })
}

impl ToolkitCommand {
    /// The command in the arguments of the program, if it is one of the toolkit.
    pub(crate) fn from_matches(program: &ArgMatches) -> Result<Option<Self>, clap::Error> {
        let Some((name, matches)) = program.subcommand() else { return Ok(None) };
        let (nested, args) = match (name, matches.subcommand()) {
            ("create" | "add" | "image", Some((nested, args))) => (nested, args),
            _ => ("", matches),
        };
        let command = match (name, nested) {
            ("init", _) => Self::Init(parse(args)?),
            ("create", "api") => Self::CreateApi(parse(args)?),
            ("create", "webhook") => Self::CreateWebhook(parse(args)?),
            ("add", _) => Self::AddController(parse(args)?),
            ("manifests", _) => Self::Manifests(parse(args)?),
            ("generate", _) => Self::Generate(parse(args)?),
            ("install", _) => Self::Install(parse(args)?),
            ("uninstall", _) => Self::Uninstall(parse(args)?),
            ("run", _) => Self::Run(parse(args)?),
            ("image", "build") => Self::ImageBuild(parse(args)?),
            ("image", "push") => Self::ImagePush(parse(args)?),
            ("image", "login") => Self::ImageLogin(parse(args)?),
            ("deploy", _) => Self::Deploy(parse(args)?),
            ("undeploy", _) => Self::Undeploy(parse(args)?),
            ("doctor", _) => Self::Doctor(parse(args)?),
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// Runs the command.
    pub(crate) async fn run(&self) -> Result<()> {
        let (mut results, mut notes) = (output::Results, std::io::stderr());
        let output = &mut Output::new(&mut results, &mut notes);
        let input = &mut std::io::stdin();
        match self {
            Self::Init(args) => args.run(output),
            Self::CreateApi(args) => args.run(output),
            Self::CreateWebhook(args) => args.run(output),
            Self::AddController(args) => args.run(output),
            Self::Manifests(args) => args.run(output),
            Self::Generate(args) => args.run(input, output).await,
            Self::Install(args) => args.run(output).await,
            Self::Uninstall(args) => args.run(output).await,
            Self::Run(args) => {
                let mut signals = StopSignals::listen()?;
                args.run(signals.recv(), output).await
            }
            Self::ImageBuild(args) => args.run(output),
            Self::ImagePush(args) => args.run(input, output).await,
            Self::ImageLogin(args) => args.run(input, output).await,
            Self::Deploy(args) => args.run(output).await,
            Self::Undeploy(args) => args.run(output).await,
            Self::Doctor(args) => args.run(output).await,
        }
    }
}

fn parse<A: FromArgMatches>(matches: &ArgMatches) -> Result<Box<A>, clap::Error> {
    A::from_arg_matches(matches).map(Box::new)
}
