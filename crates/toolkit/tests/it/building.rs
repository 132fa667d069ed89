//! Projects that are compiled, and whose tests pass.
//!
//! The dependencies are compiled once, into `target/scaffold`; with them, this takes some 30 seconds on
//! two cores, and without them some 5 minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::golden::everything;

/// The folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The target folder of this test's own build.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().join("scaffold")
}

/// Runs cargo in a project, without the network, and returns its output.
fn cargo(root: &Path, arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    let text =
        [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(ran.status.success(), "cargo {arguments:?}: {text}");
    text
}

#[test]
fn a_project_is_formatted_has_no_warnings_and_its_tests_pass() {
    let project = everything();
    let root = project.root();
    let crates = format!("path = \"{}/crates", workspace().display());
    for name in ["runtime", "testenv"] {
        let released = format!("\"sampan-{name}\", version = \"0.1.0\"");
        project.replace("Cargo.toml", &released, &format!("\"sampan-{name}\", {crates}/{name}\""));
    }
    // The versions with which the workspace is tested.
    fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
    cargo(&root, &["fmt", "--check"]);
    let pedantic = [
        "-D",
        "warnings",
        "-W",
        "clippy::pedantic",
        "-W",
        "missing_docs",
        "-A",
        "clippy::missing_errors_doc",
    ];
    cargo(&root, &[&["clippy", "--all-targets", "--"][..], &pedantic].concat());
    let tested = cargo(&root, &["test"]);
    assert!(tested.contains("test result: ok. 5 passed"), "{tested}");
}
