//! `sampan completion`: the completion script of a shell.

use anyhow::Result;
use clap_complete::Shell;

use crate::args;
use crate::output;

const EXAMPLES: &str = "Examples:
  source <(sampan completion bash)
  sampan completion zsh > ~/.zfunc/_sampan";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) -> Result<()> {
    // The generator panics if standard output cannot be written to, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::program(), "sampan", &mut script);
    output::print(&script)
}
