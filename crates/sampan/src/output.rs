//! Output for the user: results on standard output, everything else on standard error.
//!
//! A failed write to standard output is an error of the command, except for a closed pipe: the
//! reader, such as `head`, has read enough. A failed write to standard error is ignored, since it
//! cannot be reported.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Prints a line of the result.
pub(crate) fn say(text: &str) -> Result<()> {
    print(format!("{text}\n").as_bytes())
}

/// Prints a result that includes its line ends.
pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    finish(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a line on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a failure with its causes.
pub(crate) fn fail(error: &anyhow::Error) {
    note(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        note(&format!("  because {cause}"));
    }
}

/// Prints the help text, or the error of the arguments, and returns the exit code.
pub(crate) fn print_usage(message: &clap::Error) -> ExitCode {
    let written = message.print().and_then(|()| io::stdout().flush());
    if let Err(error) = finish(written)
        && !message.use_stderr()
    {
        fail(&error);
        return ExitCode::FAILURE;
    }
    u8::try_from(message.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Turns the result of a write to standard output into the result of the command.
fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
