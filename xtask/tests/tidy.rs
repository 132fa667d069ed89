//! House rules that the compiler cannot check. They run with `cargo test`, like everything else.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::{fs, path::Path};

/// Who may depend on whom, lowest first. Adding an edge is a design decision: change it here,
/// and say why in ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    ("keel", &[]),
    ("machinery", &[]),
    ("cel", &[]),
    ("schema", &["machinery", "cel"]),
    ("store", &["keel"]),
    ("kinds", &["machinery", "schema"]),
    ("derive", &[]),
    ("informer", &["keel", "machinery"]),
    ("client", &["keel", "machinery", "informer"]),
    ("runtime", &["keel", "machinery", "schema", "informer", "client", "derive"]),
    ("apiserver", &["keel", "machinery", "cel", "schema", "store", "kinds"]),
    ("sampan", &["keel", "machinery", "schema", "store", "kinds", "apiserver"]),
];

/// A file that grows past this has two subjects.
const MAX_LINES: usize = 600;

#[test]
fn every_source_file_says_what_it_is_for_and_stays_short() {
    let mut complaints = Vec::new();
    let mut judge = |path: &Path, text: &str| {
        let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text).lines().count();
        if own > MAX_LINES {
            complaints.push(format!("{}: {own} lines, {MAX_LINES} allowed", path.display()));
        }
        if !text.starts_with("//!") {
            complaints.push(format!("{}: does not begin with //!", path.display()));
        }
    };
    visit(&root().join("crates"), &mut judge);
    visit(&root().join("examples"), &mut judge);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn crates_depend_only_downwards() {
    for (krate, allowed) in MAY_USE {
        let manifest = root().join("crates").join(krate).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let used = text.split("[dependencies]").nth(1).unwrap_or("").split("\n[").next().unwrap();
        for (other, _) in MAY_USE {
            let uses = used.lines().any(|l| l.split(['.', ' ', '=']).next() == Some(other));
            assert!(!uses || allowed.contains(other), "{krate} must not depend on {other}");
        }
    }
}

#[test]
fn the_map_names_only_places_that_exist() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for named in map.split('`').skip(1).step_by(2).filter(|it| it.starts_with("crates/")) {
        assert!(root().join(named).exists(), "ARCHITECTURE.md names {named}, which is not there");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn visit(dir: &Path, f: &mut dyn FnMut(&Path, &str)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(&path, f);
        } else if path.extension().is_some_and(|e| e == "rs") {
            f(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}
