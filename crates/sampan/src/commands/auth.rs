//! `sampan auth`: who the user of a context is, and what it may do, with kubectl's output and exit
//! codes.

mod can_i;
mod discovery;
mod rules;
mod suggestion;
mod whoami;

use std::process::ExitCode;

use anyhow::Result;

use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan auth whoami
  sampan auth can-i list pods --namespace shop
  sampan auth can-i delete deployments.apps/web --as jane --namespace shop
  sampan auth can-i --list --as jane --namespace shop";

/// Ask who you are and what you may do
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AuthCommand {
    #[command(name = "can-i")]
    CanI(Box<can_i::CanIArgs>),
    Whoami(whoami::WhoamiArgs),
}

/// Runs the subcommand.
pub(crate) async fn run(args: AuthArgs) -> Result<ExitCode> {
    let clock = Clock::system();
    match args.command {
        AuthCommand::CanI(args) => can_i::run(*args, &clock).await,
        AuthCommand::Whoami(args) => whoami::run(args, &clock).await.map(|()| ExitCode::SUCCESS),
    }
}
