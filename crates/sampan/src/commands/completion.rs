//! `sampan completion`: what a shell needs to complete our commands.

use crate::args::Args;
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "Examples:
  source <(sampan completion bash)
  sampan completion zsh > ~/.zfunc/_sampan";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) {
    clap_complete::generate(args.shell, &mut Args::command(), "sampan", &mut std::io::stdout());
}
