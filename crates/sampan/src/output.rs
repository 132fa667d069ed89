//! What a person sees: results on standard output, everything else on standard error.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the module that prints")]

/// A result.
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// Something beside the result.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// A failure, with its causes.
pub(crate) fn fail(error: &anyhow::Error) {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because {cause}");
    }
}
