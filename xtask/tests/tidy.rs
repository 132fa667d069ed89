//! Rules of the source tree that the compiler cannot check.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The allowed dependencies between crates, lowest first. An edge that is added here is a design
/// decision: explain it in ARCHITECTURE.md.
const MAY_USE: &[(&str, &[&str])] = &[
    ("strconv", &[]),
    ("keel", &[]),
    ("tls", &["keel"]),
    ("machinery", &["strconv"]),
    ("cel", &["strconv"]),
    ("schema", &["machinery", "cel"]),
    ("store", &["keel"]),
    ("types", &["machinery", "schema"]),
    ("kinds", &["machinery", "schema", "types"]),
    ("derive", &[]),
    ("informer", &["keel", "machinery"]),
    ("client", &["keel", "tls", "machinery", "informer"]),
    ("runtime", &["keel", "tls", "machinery", "schema", "informer", "client", "derive"]),
    ("controllers", &["keel", "machinery", "runtime"]),
    ("node", &["keel", "machinery", "runtime"]),
    (
        "apiserver",
        &["keel", "tls", "machinery", "cel", "schema", "store", "types", "kinds", "informer"],
    ),
    ("kubectl", &["keel", "machinery", "types", "client"]),
    ("toolkit", &["keel", "tls", "machinery", "schema", "client"]),
    ("cluster", &["keel", "runtime", "controllers", "node", "apiserver"]),
    ("testenv", &["keel", "machinery", "store", "apiserver"]),
    (
        "sampan",
        &[
            "keel",
            "tls",
            "machinery",
            "schema",
            "store",
            "types",
            "kinds",
            "client",
            "kubectl",
            "toolkit",
            "runtime",
            "apiserver",
            "cluster",
        ],
    ),
];

/// Libraries for users: every public item has an example.
const LIBRARIES: [&str; 5] = ["informer", "client", "derive", "runtime", "testenv"];

/// The maximum length of a file; a longer one has two subjects.
const MAX_LINES: usize = 600;

#[test]
fn every_source_file_has_module_documentation_and_a_limited_length() {
    let mut errors = Vec::new();
    let mut check = |path: &Path, text: &str| {
        let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text).lines().count();
        if own > MAX_LINES {
            errors.push(format!("{}: {own} lines, {MAX_LINES} allowed", path.display()));
        }
        if !text.starts_with("//!") {
            errors.push(format!("{}: does not begin with //!", path.display()));
        }
    };
    visit(&root().join("crates"), &mut check);
    visit(&root().join("operators"), &mut check);
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn imports_stand_in_the_order_std_others_ours() {
    let mut errors = Vec::new();
    let mut check = |path: &Path, text: &str| {
        let ranks = text.lines().filter_map(|line| import_rank(line, text));
        if !ranks.is_sorted() {
            errors.push(format!(
                "{}: imports are not in the order std, others, ours",
                path.display()
            ));
        }
    };
    for folder in ["crates", "operators", "xtask"] {
        visit(&root().join(folder), &mut check);
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

/// The rank of an import at the top level of a file: 0 for std, 1 for other crates, 2 for our crates
/// and modules. An import from an enum of the file has none.
fn import_rank(line: &str, text: &str) -> Option<u8> {
    let path = line.strip_prefix("use ")?.trim_start_matches("::");
    let name = path.split(is_no_letter).next()?;
    let is_module = || {
        text.lines().any(|line| {
            line.split_once("mod ")
                .is_some_and(|(_, rest)| rest.trim_end_matches([';', ' ', '{']) == name)
        })
    };
    match name {
        "std" => Some(0),
        "crate" | "super" | "self" => Some(2),
        _ if name.starts_with(char::is_uppercase) => None,
        _ if name.ends_with("_operator") => Some(2),
        _ if MAY_USE.iter().any(|(krate, _)| *krate == name) || is_module() => Some(2),
        _ => Some(1),
    }
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
fn paths_in_the_documents_exist() {
    let mut documents: Vec<PathBuf> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(|it| root().join(it)).into();
    documents.extend(fs::read_dir(root().join("docs")).unwrap().map(|it| it.unwrap().path()));
    for document in documents.iter().filter(|it| it.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(document).unwrap();
        for named in text.split('`').skip(1).step_by(2).filter(|it| is_path(it)) {
            let found = root().join(named);
            assert!(found.exists(), "{} names {named}, which does not exist", document.display());
        }
    }
}

/// Whether a text in backticks is a path of the repository.
fn is_path(text: &str) -> bool {
    let is_path = |it: char| it.is_alphanumeric() || "/_-.".contains(it);
    text.starts_with("crates/") && text.chars().all(is_path)
}

#[test]
fn every_public_item_is_named_in_an_example_that_compiles() {
    let (mut offered, mut shown) = (Vec::new(), BTreeSet::new());
    for library in LIBRARIES {
        visit(&root().join("crates").join(library).join("src"), &mut |path, text| {
            let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
            shown.extend(example_words(own));
            offered.extend(public_items(own).into_iter().map(|item| (path.to_owned(), item)));
        });
    }
    offered.retain(|(_, item)| !shown.contains(item));
    assert!(offered.is_empty(), "shown in no example: {offered:#?}");
}

/// The words of the compiled examples, which are code blocks without a language.
fn example_words(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut fence = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else {
            fence = None;
            continue;
        };
        match (doc.trim().strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(matches!(language, "" | "no_run")),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => words.extend(doc.split(is_no_letter).map(str::to_owned)),
            (None, _) => {}
        }
    }
    words
}

/// The public types, traits and free functions, except for those hidden from documentation.
fn public_items(text: &str) -> Vec<String> {
    let kinds = ["struct ", "trait ", "enum ", "type ", "fn ", "async fn "];
    let mut items = Vec::new();
    let mut is_hidden = false;
    for line in text.lines() {
        let item = line.strip_prefix("pub ").unwrap_or_default();
        let named = kinds.iter().find_map(|kind| item.strip_prefix(kind));
        if let Some(name) = named.filter(|_| !is_hidden) {
            items.extend(name.split(is_no_letter).next().map(str::to_owned));
        }
        is_hidden = line.starts_with("#[doc(hidden)]");
    }
    items
}

fn is_no_letter(letter: char) -> bool {
    !letter.is_alphanumeric() && letter != '_'
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
