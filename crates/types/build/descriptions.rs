//! Collects the descriptions of the built-in types and their fields: the text that `kubectl
//! explain` prints.
//!
//! The text is not ours, so it is not in this repository. The crate k8s-openapi has it in its
//! source, which Cargo downloads and locates, but never compiles: that would take longer than the
//! rest of the server. If it cannot be found, the build fails.
//!
//! The output, one file per package of OpenAPI names, compressed:
//!
//! ```text
//! \x01 ConfigMap \0 ConfigMap holds… \0 binaryData \0 BinaryData contains… \0 data \0 …
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The release whose API is described, as k8s-openapi names it.
const RELEASE: &str = "v1_35";

/// The texts of each package, as above.
pub(super) fn collect() -> BTreeMap<String, String> {
    let mut packages = BTreeMap::new();
    read(&source().join(RELEASE), &mut packages);
    packages
}

/// Writes `descriptions.rs` and the files that it includes into `out`.
pub(super) fn write(packages: &BTreeMap<String, String>, out: &Path) {
    let mut rust = format!("static PACKAGES: [(&str, &[u8]); {}] = [\n", packages.len());
    for (package, text) in packages {
        let path = out.join(format!("descriptions-{package}"));
        fs::write(&path, deflated(text)).expect("a writable OUT_DIR");
        let path = path.to_str().expect("Cargo works in folders with readable names");
        writeln!(rust, "({package:?}, include_bytes!({path:?})),")
            .expect("writing to a string does not fail");
    }
    rust.push_str("];\n");
    fs::write(out.join("descriptions.rs"), rust).expect("a writable OUT_DIR");
}

fn deflated(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("writing to memory does not fail");
    encoder.finish().expect("writing to memory does not fail")
}

/// The `src` folder of k8s-openapi.
fn source() -> PathBuf {
    let folder = env::var("CARGO_MANIFEST_DIR").expect("set by Cargo");
    let output = Command::new(env::var_os("CARGO").expect("set by Cargo"))
        .args(["metadata", "--format-version=1", "--locked", "--features=descriptions-source"])
        .arg("--manifest-path")
        .arg(Path::new(&folder).join("Cargo.toml"))
        .output()
        .unwrap_or_else(|error| fail(&error.to_string()));
    if !output.status.success() {
        fail(&String::from_utf8_lossy(&output.stderr));
    }
    let metadata = String::from_utf8_lossy(&output.stdout);
    let path = manifest_path(&metadata).unwrap_or_else(|| fail("it is not among the packages"));
    Path::new(&path.replace("\\\\", "\\")).with_file_name("src")
}

/// The path of k8s-openapi's manifest. A JSON parser would have to be compiled just for this field.
fn manifest_path(metadata: &str) -> Option<&str> {
    let package = metadata.split_once("\"name\":\"k8s-openapi\",\"version\":\"")?.1;
    Some(package.split_once("\"manifest_path\":\"")?.1.split_once('"')?.0)
}

fn fail(why: &str) -> ! {
    panic!(
        "the source of k8s-openapi, which has the descriptions for `kubectl explain`, was not found.\n\
         Run `cargo fetch --locked`, with access to crates.io or to vendored sources; if it says that\n\
         the lock file needs to be updated, run `cargo update --workspace`.\n\
         `cargo metadata --locked` said: {why}"
    )
}

fn read(folder: &Path, packages: &mut BTreeMap<String, String>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder of k8s-openapi")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read(&path, packages);
        } else if let Some((name, texts)) = describe(&fs::read_to_string(&path).expect("text")) {
            let (package, short) = name.rsplit_once('.').expect("OpenAPI names have a package");
            let into = packages.entry(package.to_owned()).or_default();
            write!(into, "\x01{short}\0{}", texts.join("\0"))
                .expect("writing to a string does not fail");
        }
    }
}

/// The OpenAPI name of the type that a file defines, its description, and the name and description
/// of each field.
///
/// The files are generated, so that the indentation of a line tells what it is.
fn describe(file: &str) -> Option<(String, Vec<String>)> {
    let rest = file.split_once("fn schema_name()")?.1;
    let name = rest.split('"').nth(1)?.to_owned();
    let schema = rest.split_once("json_schema!({\n")?.1.split("\n        })").next()?;
    let mut texts = vec![String::new()];
    let mut field = "";
    for line in schema.lines() {
        let depth = line.len() - line.trim_start().len();
        match (depth, line.trim_start().strip_prefix('"')) {
            (12, Some(rest)) => texts[0] += &description(rest).unwrap_or_default(),
            (16, Some(rest)) => field = rest.split('"').next().unwrap_or_default(),
            (20, it) if !field.is_empty() => {
                let inserted = || line.split_once("insert(\"").and_then(|it| description(it.1));
                if let Some(text) = it.map_or_else(inserted, description) {
                    texts.extend([field.to_owned(), text]);
                    field = "";
                }
            }
            _ => {}
        }
    }
    Some((name, texts))
}

/// The text in `description": "…"` or `description".into(), "…"`.
fn description(line: &str) -> Option<String> {
    let quoted = line.strip_prefix("description\"")?.split_once('"')?.1;
    let mut text = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some(text),
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            char => text.push(char),
        }
    }
}
