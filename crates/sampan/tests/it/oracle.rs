//! Recorded conversations with kube-apiserver, replayed: what we once answered as it does, we go on
//! answering so.
//!
//! The cases stand beside the repository (`../shared/oracle`, or where `SAMPAN_ORACLE` says). Where
//! they are not, there is nothing to replay, and the test says so. Those that still differ are
//! listed in `oracle_differs.txt`, each with its reason; the list may only shrink.

use crate::plane::Plane;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIFFERS: &str = include_str!("oracle_differs.txt");

const TOKENS: &str =
    "admin-token,admin,admin-uid,\"system:masters\"\nalice-token,alice,,\nbob-token,bob,,\n";

#[test]
fn what_kube_apiserver_answered_we_answer_too() {
    let Some(oracle) = oracle() else {
        eprintln!("SKIPPED: no recorded cases beside the repository; set SAMPAN_ORACLE");
        return;
    };
    let plane = Plane::with_tokens(TOKENS);
    let output = Command::new("python3")
        .arg(oracle.join("oracle.py"))
        .args(["check", "--server", &plane.url, "--token", "admin-token", "--insecure", "--quiet"])
        .arg(oracle.join("cases"))
        .output()
        .expect("python3 replays the cases: install it");
    let text = String::from_utf8_lossy(&output.stdout);
    let known = known();
    let differing: Vec<&str> =
        text.lines().filter_map(|it| it.strip_prefix("FAIL  cases/")).map(str::trim).collect();
    let new: Vec<&&str> = differing.iter().filter(|it| !known.contains_key(**it)).collect();
    assert!(new.is_empty(), "no longer as kube-apiserver: {new:#?}\n{text}");
    let mended: Vec<&&str> = known.keys().filter(|it| !differing.contains(it)).collect();
    assert!(mended.is_empty(), "take these off oracle_differs.txt: {mended:#?}");
}

fn oracle() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/oracle");
    let path = std::env::var_os("SAMPAN_ORACLE").map_or(beside, PathBuf::from);
    path.join("oracle.py").exists().then_some(path)
}

/// The cases that differ, with the reason: `topic: title  # reason`.
fn known() -> BTreeMap<&'static str, &'static str> {
    DIFFERS
        .lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
        .map(|it| it.split_once("  # ").expect("every line has a reason"))
        .map(|(case, reason)| (case.trim(), reason.trim()))
        .collect()
}
