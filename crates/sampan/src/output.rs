//! Output for the user: results on standard output, everything else on standard error.
//!
//! A failed write to standard output is an error of the command, except for a closed pipe: the
//! reader, such as `head`, has read enough. A failed write to standard error is ignored, since it
//! cannot be reported.
//!
//! Lines may have text of the server: its control characters are escaped.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use keel::escape_controls;

/// Prints a line of the result.
pub(crate) fn print_line(text: &str) -> Result<()> {
    print(format!("{}\n", escape_controls(text)).as_bytes())
}

/// Prints a result that includes its line ends.
pub(crate) fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    finish(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints a line that is not part of the result, on standard error.
pub(crate) fn print_note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escape_controls(text));
}

/// Prints an error and its causes on standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    print_note(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        print_note(&format!("  because {cause}"));
    }
}

/// Prints the help text, or the error of the arguments, and returns the exit code.
pub(crate) fn print_usage(message: &clap::Error) -> ExitCode {
    let written = message.print().and_then(|()| io::stdout().flush());
    if let Err(error) = finish(written)
        && !message.use_stderr()
    {
        print_error(&error);
        return ExitCode::FAILURE;
    }
    u8::try_from(message.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Standard output for libraries. What is written after its reader has ended is dropped.
pub(crate) struct Results;

impl Write for Results {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match io::stdout().write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match io::stdout().flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// Turns the result of a write to standard output into the result of the command.
fn finish(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
