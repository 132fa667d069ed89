//! Recorded responses of kube-apiserver, beside the repository, and the lists of known differences.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of recordings in `variable`, or the default one beside the repository. Prints a
/// message and returns none if neither has the `program` that replays them.
pub(crate) fn folder(name: &str, variable: &str, program: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    let path = std::env::var_os(variable).map_or(beside, PathBuf::from);
    if !path.join(program).exists() {
        eprintln!("SKIPPED: no recordings in {}; set {variable}", path.display());
        return None;
    }
    Some(path)
}

/// Checks that the differences are those in `list`, no more and no less; `output` explains them.
pub(crate) fn assert_differs(differing: &[&str], list: &str, file: &str, output: &str) {
    let known = known(list);
    let new: Vec<&&str> = differing.iter().filter(|it| !known.contains_key(**it)).collect();
    assert!(new.is_empty(), "these differ from kube-apiserver: {new:#?}\n{output}");
    let fixed: Vec<&&str> = known.keys().filter(|it| !differing.contains(it)).collect();
    assert!(
        fixed.is_empty(),
        "these now behave as kube-apiserver; remove them from {file}: {fixed:#?}"
    );
}

/// Parses a list of known differences with their reasons: `name  # reason`.
fn known(list: &str) -> BTreeMap<&str, &str> {
    list.lines()
        .filter(|it| !it.is_empty() && !it.starts_with('#'))
        .map(|it| it.split_once("  # ").expect("every line has a reason"))
        .map(|(name, reason)| (name.trim(), reason.trim()))
        .collect()
}
