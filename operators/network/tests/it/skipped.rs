//! Tests that need something of the machine: without it they are skipped loudly, and fail in CI.

/// Reports that a test is skipped, which is a failure if `CI` is `true`.
#[allow(clippy::print_stderr, reason = "a skipped test is reported")]
pub(crate) fn skip(test: &str, missing: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} needs {missing}");
    eprintln!("\n*** SKIPPED: {test}: it needs {missing}\n");
}
