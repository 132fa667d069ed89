//! Projects that are compiled, and whose tests pass.
//!
//! The dependencies are compiled once, into `target/scaffold`; with them, this takes some 30 seconds on
//! two cores, and without them some 5 minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::Sampan;
use crate::golden::{everything, golden_file};

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

/// A project whose dependencies are the crates of this checkout, in the tested versions.
fn project() -> Sampan {
    let project = everything();
    let crates = format!("path = \"{}/crates", workspace().display());
    for name in ["runtime", "testenv"] {
        let released = format!("\"sampan-{name}\", version = \"0.1.0\"");
        project.replace("Cargo.toml", &released, &format!("\"sampan-{name}\", {crates}/{name}\""));
    }
    fs::copy(workspace().join("Cargo.lock"), project.root().join("Cargo.lock")).unwrap();
    fs::create_dir(project.root().join(".cargo")).unwrap();
    fs::write(project.root().join(".cargo/config.toml"), "net.offline = true\n").unwrap();
    project
}

#[test]
fn a_project_is_formatted_has_no_warnings_and_its_tests_are_the_source_of_its_roles() {
    let project = project();
    let root = project.root();
    cargo(&root, &["fmt", "--check"]);
    let pedantic =
        ["-W", "clippy::pedantic", "-W", "missing_docs", "-A", "clippy::missing_errors_doc"];
    cargo(&root, &[&["clippy", "--all-targets", "--", "-D", "warnings"][..], &pedantic].concat());
    let tested = cargo(&root, &["test"]);
    assert!(tested.contains("test result: ok. 5 passed"), "{tested}");

    let target = target().display().to_string();
    let manifests = format!("manifests --project DIR --target-dir {target}");
    let printed = project.run(&manifests).unwrap();
    golden_file("everything.yaml", &printed);
    // The record of the tests is used again.
    let chart =
        format!("{manifests} --skip-tests --format helm --image mock.com:5000/a:v1 -o DIR/chart");
    let created = project.run(&chart).unwrap();
    assert!(created.contains("DIR/chart/templates/deployment.yaml"), "{created}");
    assert!(project.read("chart/values.yaml").contains("image: mock.com:5000/a:v1"));
    let folder = format!("{manifests} --skip-tests --format kustomize -n other -o DIR/deploy");
    project.run(&folder).unwrap();
    assert!(project.read("deploy/deployment.yaml").contains("namespace: other"));
    assert!(project.read("deploy/kustomization.yaml").contains("- deployment.yaml"));
}
