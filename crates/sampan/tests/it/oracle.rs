//! Replays recorded conversations with kube-apiserver: the responses are the same, with the fields in
//! the same order.
//!
//! The cases are beside the repository (`../shared/oracle`, or the folder in `SAMPAN_ORACLE`).
//! Without them, the test prints that it is skipped. Known differences are listed in
//! `oracle_differs.txt`, each with its reason; the list may only shrink.

use std::path::Path;
use std::process::Command;

use crate::plane::Plane;
use crate::recorded::{assert_differs, folder};

const TOKENS: &str =
    "admin-token,admin,admin-uid,\"system:masters\"\nalice-token,alice,,\nbob-token,bob,,\n";

#[test]
fn responses_are_those_of_kube_apiserver() {
    let Some(oracle) = folder("oracle", "SAMPAN_ORACLE", "oracle.py") else { return };
    let plane = Plane::with_tokens(TOKENS);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/oracle_order.py");
    let output = Command::new("python3")
        .arg(program)
        .arg(&oracle)
        .args(["check", "--server", &plane.url, "--token", "admin-token", "--insecure", "--quiet"])
        .arg(oracle.join("cases"))
        .output()
        .expect("python3 replays the cases: install it");
    let text = String::from_utf8_lossy(&output.stdout);
    let differing: Vec<&str> =
        text.lines().filter_map(|it| it.strip_prefix("FAIL  cases/")).map(str::trim).collect();
    assert_differs(&differing, include_str!("oracle_differs.txt"), "oracle_differs.txt", &text);
}
