//! What a person sees: results on standard output, everything else on standard error.
//!
//! Standard output that cannot be written to is an error of the command, except for a closed pipe:
//! the reader, such as `head`, has all that it wants. Standard error that cannot be written to is
//! ignored, as there is no other place to report it.

use anyhow::{Context, Result};
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints a result.
pub(crate) fn say(text: &str) -> Result<()> {
    print(format!("{text}\n").as_bytes())
}

/// Prints a result that brings its own line ends.
pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    finish(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints something beside the result.
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

/// Prints the help that was asked for, or what is wrong with the arguments, and returns the exit
/// code for it.
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

/// Turns the outcome of a write to standard output into that of the command.
fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
