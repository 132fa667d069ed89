//! `sampan user`: people and machines that may use a cluster, each with a client certificate, a role
//! and a context in a kubeconfig.
//!
//! The commands are clients of the API: they work with every cluster that signs certificate signing
//! requests. Which certificates were issued is in a config map of the cluster ([`records`]), the roles
//! are role bindings ([`bindings`]), and the private key is only in the kubeconfig.

mod input;
mod certificate;
mod roles;
mod bindings;
mod records;
mod add;
mod list;
mod remove;

use anyhow::Result;

use keel::Clock;

const EXAMPLES: &str = "Examples:
  sampan user add jane --role view --namespace shop
                                              may read in one namespace, for a day
  kubectl --context jane@sampan get pods
  sampan user add ci --role edit --namespace shop --ttl 12h --output ci.kubeconfig
                                              a file for another machine
  sampan user add bob --group developers --role cluster-admin
                                              may do everything
  sampan user list
  sampan user remove jane";

/// Give people and machines access to a cluster
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum UserCommand {
    Add(add::AddArgs),
    List(list::ListArgs),
    Remove(remove::RemoveArgs),
}

/// Runs the subcommand.
pub(crate) async fn run(args: UserArgs) -> Result<()> {
    let clock = Clock::system();
    match args.command {
        UserCommand::Add(args) => add::run(args, &clock).await,
        UserCommand::List(args) => list::run(args, &clock).await,
        UserCommand::Remove(args) => remove::run(args, &clock).await,
    }
}
