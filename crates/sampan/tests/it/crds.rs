//! The CRDs of well-known projects and their example objects: each is accepted or refused as by
//! kube-apiserver, with the same defaults, pruning, causes, columns and schemas.
//!
//! The CRDs are beside the repository (`../shared/crds`, or the folder in `SAMPAN_CRDS`). Without
//! them, the test prints that it is skipped. Known differences are listed in `crds_differ.txt`, each
//! with its reason; the list may only shrink.

use std::process::Command;

use crate::plane::Plane;
use crate::recorded::{assert_differs, folder};

#[test]
fn crds_of_real_projects_are_served_as_by_kube_apiserver() {
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
        .expect("python3 compares the responses: install it");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("TOTAL same="), "check.py failed; it needs PyYAML\n{errors}");
    let differing: Vec<&str> =
        text.lines().filter_map(|it| it.strip_prefix("DIFF ")).map(str::trim).collect();
    assert_differs(&differing, include_str!("crds_differ.txt"), "crds_differ.txt", &text);
}
