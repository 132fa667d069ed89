//! The help text of `cargo xtask`.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::process::Command;

#[test]
fn help_of_a_command_is_printed_before_anything_is_built() {
    for arguments in [&["help"][..], &["--help"], &["oracle", "--help"], &["test", "-h"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(arguments)
            .env("CARGO", "/no/such/program")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}");
        assert!(text.starts_with("usage: cargo xtask") && text.contains("examples:"), "{text}");
        assert!(output.stderr.is_empty(), "{arguments:?}");
    }
}
