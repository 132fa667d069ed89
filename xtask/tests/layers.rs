//! The layers of the API server: the edges between the folders of `crates/apiserver/src`. The
//! compiler allows cycles between modules; this test does not.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The layers from top to bottom, and the layers that each uses, which are all below it. An edge that
/// is added here is a design decision: say why in ARCHITECTURE.md, which shows the same table.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "server",
        &[
            "listen",
            "chain",
            "plane",
            "extensions",
            "admission",
            "registry",
            "in_process",
            "node_authorizer",
            "rbac",
            "storage",
            "cache",
            "config",
            "encryption",
            "audit",
            "flow_control",
            "auth",
            "outbound",
            "metrics",
            "certificates",
            "config_files",
        ],
    ),
    ("listen", &["in_process", "config", "flow_control", "auth", "http", "certificates"]),
    (
        "chain",
        &[
            "routes",
            "endpoints",
            "plane",
            "extensions",
            "registry",
            "in_process",
            "rbac",
            "storage",
            "audit",
            "flow_control",
            "auth",
            "metrics",
            "http",
            "request",
        ],
    ),
    ("routes", &["plane", "extensions", "storage", "cache", "metrics", "http", "request"]),
    (
        "endpoints",
        &[
            "plane",
            "admission",
            "registry",
            "storage",
            "cache",
            "flow_control",
            "auth",
            "outbound",
            "metrics",
            "http",
            "request",
        ],
    ),
    (
        "plane",
        &[
            "extensions",
            "admission",
            "registry",
            "in_process",
            "storage",
            "config",
            "audit",
            "flow_control",
            "auth",
            "metrics",
            "certificates",
        ],
    ),
    ("extensions", &["in_process", "storage", "cache", "auth", "outbound", "http", "request"]),
    (
        "admission",
        &[
            "registry",
            "in_process",
            "rbac",
            "storage",
            "cache",
            "audit",
            "auth",
            "outbound",
            "metrics",
            "request",
        ],
    ),
    ("registry", &["storage", "cache", "audit", "flow_control", "auth", "request"]),
    ("in_process", &["storage", "flow_control", "auth", "http"]),
    ("node_authorizer", &["rbac", "storage", "cache", "auth"]),
    ("rbac", &["storage", "cache", "auth"]),
    ("storage", &["cache", "encryption", "outbound", "metrics", "http"]),
    ("cache", &["encryption"]),
    ("config", &["encryption", "audit", "flow_control", "auth", "outbound", "certificates"]),
    ("encryption", &["metrics", "config_files"]),
    ("audit", &["auth", "outbound", "metrics", "http", "request"]),
    ("flow_control", &["auth", "metrics", "request"]),
    ("auth", &["outbound", "metrics", "http", "request", "config_files"]),
    ("outbound", &[]),
    ("metrics", &["http", "request"]),
    ("http", &["request"]),
    ("request", &[]),
    ("certificates", &[]),
    ("config_files", &[]),
];

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_edges_between_layers_are_those_of_the_table() {
    let found = edges(&source());
    let table: Edges = LAYERS
        .iter()
        .map(|(layer, uses)| {
            ((*layer).to_owned(), uses.iter().map(|it| (*it).to_owned()).collect())
        })
        .collect();
    let none = BTreeSet::new();
    let layers: BTreeSet<&String> = found.keys().chain(table.keys()).collect();
    for layer in layers {
        let found = found.get(layer).unwrap_or(&none);
        let allowed = table.get(layer).unwrap_or_else(|| panic!("{layer} is not in the table"));
        let new: Vec<_> = found.difference(allowed).collect();
        assert!(new.is_empty(), "{layer} must not use {new:?}");
        let unused: Vec<_> = allowed.difference(found).collect();
        assert!(unused.is_empty(), "{layer} does not use {unused:?} any more: remove the edge");
    }
}

#[test]
fn the_table_has_no_cycle() {
    let layers: Vec<&str> = LAYERS.iter().map(|(layer, _)| *layer).collect();
    for (index, (layer, uses)) in LAYERS.iter().enumerate() {
        for used in *uses {
            assert!(layers[index + 1..].contains(used), "{used} is not below {layer}");
        }
    }
}

#[test]
fn the_modules_are_declared_in_the_order_of_the_layers() {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let declared: Vec<&str> = text
        .lines()
        .filter_map(|it| it.strip_prefix("pub ").unwrap_or(it).strip_prefix("mod "))
        .filter_map(|it| it.strip_suffix(';'))
        .collect();
    let layers: Vec<&str> = LAYERS.iter().map(|(layer, _)| *layer).collect();
    assert_eq!(declared, layers);
}

#[test]
fn the_architecture_shows_the_table() {
    let shown = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let drawn = drawing();
    assert!(shown.contains(&drawn), "ARCHITECTURE.md should show:\n{drawn}");
}

#[test]
fn the_walk_of_a_request_names_each_file_once() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let walk = text.split("## One request, by file").nth(1).unwrap();
    let walk = walk.split("The other half").next().unwrap();
    let mut named = BTreeSet::new();
    for file in walk
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|it| Path::new(it).extension().is_some_and(|it| it == "rs"))
    {
        let path =
            if file.starts_with("crates/") { root().join(file) } else { source().join(file) };
        assert!(path.exists(), "the walk names {file}, which does not exist");
        assert!(named.insert(file), "the walk names {file} twice");
    }
    assert!(named.len() > 30, "the walk names only {}", named.len());
}

/// The files and folders of generic code, which serves all kinds.
const GENERIC: &[&str] = &[
    "chain",
    "registry",
    "cache/watch_cache",
    "endpoints/create",
    "endpoints/update",
    "endpoints/patch",
    "endpoints/apply",
    "endpoints/delete",
    "endpoints/delete_collection",
    "endpoints/get",
    "endpoints/list",
    "endpoints/watch",
];

/// The hook of Services, which the registry runs without knowing it.
const HOOK_OF_SERVICES: &str = "registry/service_address";

#[test]
fn generic_code_names_no_kind() {
    let kinds = kinds();
    assert!(kinds.contains("pods") && kinds.contains("Pod") && kinds.len() > 100, "{kinds:?}");
    let mut found = Vec::new();
    for path in files(&source()) {
        let module = path.strip_prefix(source()).unwrap().with_extension("");
        let is_generic = GENERIC.iter().any(|it| module.starts_with(it));
        if !is_generic || module.starts_with(HOOK_OF_SERVICES) || module.ends_with("tests") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in code.lines().filter(|it| !it.trim_start().starts_with("//")) {
            let is_kind = |it: &&str| kinds.contains(*it) || is_group(it);
            found.extend(literals(line).filter(is_kind).map(|it| format!("{module:?}: {it}")));
        }
    }
    assert!(found.is_empty(), "generic code names kinds or their groups: {found:#?}");
}

/// The kinds and plurals in the source of `kinds`, which names them in pairs.
fn kinds() -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for path in files(&root().join("crates/kinds/src")) {
        let text = fs::read_to_string(path).unwrap();
        let literals: Vec<&str> = literals(&text).collect();
        for pair in literals.windows(2) {
            let (kind, plural) = (pair[0], pair[1]);
            let stem = kind.to_lowercase();
            let is_pair = kind.starts_with(|it: char| it.is_ascii_uppercase())
                && kind.is_ascii()
                && kind.len() > 2
                && plural.len() > kind.len()
                && plural.starts_with(&stem[..stem.len() - 1])
                && plural.ends_with('s');
            if is_pair {
                kinds.extend([kind.to_owned(), plural.to_owned()]);
            }
        }
    }
    kinds
}

/// Whether a string is an API group of kinds. The group of options is not one.
fn is_group(text: &str) -> bool {
    text.ends_with(".k8s.io") && text != "meta.k8s.io"
}

/// The texts between quotes.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The table as text.
fn drawing() -> String {
    let line = |(layer, uses): &(&str, &[&str])| {
        format!("{layer:<13} ─▶ {}", uses.join(" ")).trim_end_matches(" ─▶ ").trim_end().to_owned()
    };
    LAYERS.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The edges between the top-level modules, by the paths in the code. Tests may use all modules.
fn edges(source: &Path) -> Edges {
    let mut edges = Edges::new();
    for path in files(source) {
        let module = path.strip_prefix(source).unwrap().with_extension("");
        let module: Vec<String> = module.iter().map(|it| it.to_str().unwrap().to_owned()).collect();
        if module[0] == "lib" || module.last().unwrap() == "tests" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let uses = edges.entry(module[0].clone()).or_default();
        uses.extend(used(&text, module.len()).filter(|it| *it != module[0]));
    }
    edges
}

/// The top-level modules in the paths of a file, which is `depth` modules deep.
fn used(text: &str, depth: usize) -> impl Iterator<Item = String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code: String = code
        .lines()
        .map(|it| it.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut used = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for rest in code.split(&root).skip(1) {
            if let Some(group) = rest.strip_prefix('{') {
                used.extend(top_level(group));
            } else {
                used.insert(word(rest));
            }
        }
    }
    used.into_iter().filter(|it| LAYERS.iter().any(|(layer, _)| layer == it))
}

/// The first words of the members of a group of imports, up to its closing brace.
fn top_level(group: &str) -> Vec<String> {
    let (mut words, mut depth, mut member) = (Vec::new(), 0, String::new());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.push(word(std::mem::take(&mut member).trim())),
            letter => member.push(letter),
        }
    }
    words.push(word(member.trim()));
    words
}

fn word(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn source() -> PathBuf {
    root().join("crates/apiserver/src")
}

#[test]
fn every_form_of_path_is_an_edge() {
    let of = |text: &str, depth| used(text, depth).collect::<Vec<_>>();
    assert_eq!(of("use crate::cache::catalog::Catalog;", 1), ["cache"]);
    assert_eq!(of("use crate::{auth::User, cache::{a, b}};", 2), ["auth", "cache"]);
    assert_eq!(of("fn f(x: crate::http::body::Body) {}", 1), ["http"]);
    assert_eq!(of("use super::super::registry::Part;", 2), ["registry"]);
    assert_eq!(of("// crate::cache\nuse std::fmt;", 1), Vec::<String>::new());
    assert_eq!(of("fn f() {}\n#[cfg(test)]\nmod tests {\nuse crate::server;", 1), [""; 0]);
}
