//! The projects that the commands make, as they stand in `golden/`. With `UPDATE=1`, the tests write
//! them.

use std::fs;
use std::path::Path;

use crate::command_line::{CUSTOM_POD, Sampan, files};

/// Compares a project with `golden/name`.
fn check(name: &str, project: &Sampan) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let made = files(&project.root());
    if std::env::var_os("UPDATE").is_some() {
        let _ = fs::remove_dir_all(&golden); // it may not exist yet
        for (path, content) in &made {
            let path = golden.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }
    let expected = files(&golden);
    let paths = |files: &std::collections::BTreeMap<String, String>| {
        files.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(paths(&made), paths(&expected), "UPDATE=1 writes golden/{name}");
    for (path, content) in made {
        assert_eq!(content, expected[&path], "{path}: UPDATE=1 writes golden/{name}");
    }
}

/// Compares a text with the file `golden/name`.
pub(crate) fn golden_file(name: &str, text: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, text).unwrap();
    }
    let expected = fs::read_to_string(golden).unwrap();
    assert_eq!(text, expected, "UPDATE=1 writes golden/{name}");
}

#[test]
fn a_project_with_one_kind_is_read_in_ten_minutes() {
    let project = Sampan::project(&[CUSTOM_POD]);
    check("custompod", &project);
    let files = files(&project.root());
    let lines: usize = files.values().map(|content| content.lines().count()).sum();
    assert!(files.len() <= 12 && lines <= 360, "{} files, {lines} lines", files.len());
}

#[test]
fn kinds_versions_and_webhooks_are_added_to_a_project() {
    check("everything", &Sampan::project(EVERYTHING));
}

/// Every command.
pub(crate) const EVERYTHING: &[&str] = &[
    CUSTOM_POD,
    "create api --project DIR --group network --version v1alpha1 --kind Vpc --namespaced=false --controller=false",
    "add controller --project DIR --api-version=network.mock.com/v1alpha1 --kind=Vpc",
    "create webhook --project DIR --group zhhnzw --version v1 --kind CustomPod --defaulting --programmatic-validation",
    "create api --project DIR --group zhhnzw --version v2 --kind CustomPod",
    "create webhook --project DIR --group zhhnzw --version v2 --kind CustomPod --conversion",
    "create api --project DIR --group zhhnzw --version v3 --kind CustomPod",
];
