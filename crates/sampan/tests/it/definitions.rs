//! The definitions of well-known projects and their example objects: each is taken or refused as
//! kube-apiserver did, with the same defaults, pruning, causes, columns and schemas.
//!
//! They stand beside the repository (`../shared/crds`, or where `SAMPAN_CRDS` says). Where they are
//! not, there is nothing to compare, and the test says so. What still differs is listed in
//! `definitions_differ.txt`, each with its reason; the list may only shrink.

use crate::plane::Plane;
use crate::recorded::{assert_differs, folder};
use std::process::Command;

#[test]
fn definitions_of_real_projects_are_served_as_kube_apiserver_serves_them() {
    let Some(crds) = folder("crds", "SAMPAN_CRDS", "check.py") else { return };
    let plane = Plane::in_memory();
    let output = Command::new("python3")
        .arg(crds.join("check.py"))
        .arg("--kubeconfig")
        .arg(&plane.kubeconfig)
        .arg("--crds")
        .arg(&crds)
        .arg("--compare")
        .arg(crds.join("baseline-kube-apiserver.jsonl"))
        .args(["--show", "10000"])
        .output()
        .expect("python3 compares the answers: install it");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("TOTAL same="), "it did not come to its end; PyYAML is needed\n{errors}");
    let differing: Vec<&str> =
        text.lines().filter_map(|it| it.strip_prefix("DIFF ")).map(str::trim).collect();
    assert_differs(
        &differing,
        include_str!("definitions_differ.txt"),
        "definitions_differ.txt",
        &text,
    );
}
