//! The commands of the toolkit: `sampan init`, `create api`, `create webhook`, `add controller` and
//! `manifests`.
//!
//! `create` is also a verb of kubectl, so `api` and `webhook` are added to its subcommands.

use anyhow::Result;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};

use crate::output;
use toolkit::{
    AddControllerArgs, CreateApiArgs, CreateWebhookArgs, InitArgs, ManifestsArgs, Output,
};

/// A command of the toolkit.
#[derive(Debug)]
pub(crate) enum ToolkitCommand {
    Init(Box<InitArgs>),
    CreateApi(Box<CreateApiArgs>),
    CreateWebhook(Box<CreateWebhookArgs>),
    AddController(Box<AddControllerArgs>),
    Manifests(Box<ManifestsArgs>),
}

/// Adds the commands to those of the program.
pub(crate) fn augment(program: Command) -> Command {
    // `--version` is the version of an API here.
    let command = |name: &'static str| Command::new(name).disable_version_flag(true);
    program
        .subcommand(InitArgs::augment_args(command("init")))
        .subcommand(ManifestsArgs::augment_args(command("manifests")))
        .subcommand(
            command("add")
                .about("Add a controller to the project")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(AddControllerArgs::augment_args(command("controller"))),
        )
        .mut_subcommand("create", |create| {
            create
                .subcommand(CreateApiArgs::augment_args(command("api")))
                .subcommand(CreateWebhookArgs::augment_args(command("webhook")))
        })
}

impl ToolkitCommand {
    /// The command in the arguments of the program, if it is one of the toolkit.
    pub(crate) fn from_matches(program: &ArgMatches) -> Result<Option<Self>, clap::Error> {
        let nested = |matches: &ArgMatches| match matches.subcommand() {
            Some(("api", args)) => {
                CreateApiArgs::from_arg_matches(args).map(Box::new).map(Self::CreateApi).map(Some)
            }
            Some(("webhook", args)) => CreateWebhookArgs::from_arg_matches(args)
                .map(Box::new)
                .map(Self::CreateWebhook)
                .map(Some),
            Some(("controller", args)) => AddControllerArgs::from_arg_matches(args)
                .map(Box::new)
                .map(Self::AddController)
                .map(Some),
            _ => Ok(None),
        };
        match program.subcommand() {
            Some(("init", args)) => {
                InitArgs::from_arg_matches(args).map(Box::new).map(Self::Init).map(Some)
            }
            Some(("manifests", args)) => {
                ManifestsArgs::from_arg_matches(args).map(Box::new).map(Self::Manifests).map(Some)
            }
            Some(("create" | "add", args)) => nested(args),
            _ => Ok(None),
        }
    }

    /// Runs the command.
    pub(crate) fn run(&self) -> Result<()> {
        let (mut results, mut notes) = (output::Results, std::io::stderr());
        let output = &mut Output::new(&mut results, &mut notes);
        match self {
            Self::Init(args) => args.run(output),
            Self::CreateApi(args) => args.run(output),
            Self::CreateWebhook(args) => args.run(output),
            Self::AddController(args) => args.run(output),
            Self::Manifests(args) => args.run(output),
        }
    }
}
