//! `sampan completion`: what a shell needs to complete our commands.

use crate::args::Args;
use crate::output;
use anyhow::Result;
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
pub(crate) fn run(args: &CompletionArgs) -> Result<()> {
    // Not straight to standard output: the generator panics if that cannot be written to.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "sampan", &mut script);
    output::print(&script)
}
