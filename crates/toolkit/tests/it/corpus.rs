//! The types of the CRDs of well-known projects, compiled: each makes the CRD that it was generated from,
//! and decodes and encodes the examples of the kind without a loss.
//!
//! The CRDs are beside the repository (`../shared/crds`, or the folder in `SAMPAN_CRDS`), and this runs where
//! projects are compiled (`SAMPAN_TEST_PROJECTS=1`). The types in `golden/generate` are checked as well.
//!
//! Two CRDs are the same if they differ only in what has no effect on objects: descriptions and titles, the
//! order of `required` and of columns' fields, absent and false booleans, empty lists, labels and annotations
//! (but for `api-approved.kubernetes.io`), the kind of lists, the conversion webhook, and what is said about
//! `apiVersion`, `kind` and `metadata` without restricting them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::building::{cargo, compiles_projects, target, workspace};
use crate::command_line::{Sampan, files};
use crate::crd_comparison::{comparable, normal_example};
use crate::generate::{GOLDEN_CRDS, golden_crd};
use machinery::codec::yaml;
use machinery::{ErrorList, Map, Value, json};
use schema::Structural;

/// The known differences, each with its reason.
const KNOWN: [(&str, &str); 2] = [
    ("drivers.crew.example.com/v1: .scope", "empty, for which a server refuses the CRD"),
    ("drivers.crew.example.com/v2: .scope", "empty, for which a server refuses the CRD"),
];

const MAIN: &str = include_str!("corpus_main.rs.txt");

/// The folder of the CRDs. Without it, the test says so.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn crd_folder() -> Option<PathBuf> {
    let beside = workspace().join("../shared/crds");
    let folder = std::env::var_os("SAMPAN_CRDS").map_or(beside, PathBuf::from);
    let exists = folder.join("INDEX.tsv").exists();
    if !exists {
        eprintln!("skipped: no CRDs in {}; set SAMPAN_CRDS", folder.display());
    }
    exists.then_some(folder)
}

/// The YAML files below a folder, with their documents.
fn documents(folder: &Path, below: &str) -> Vec<(PathBuf, Value)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "yaml")
                && path.components().any(|it| it.as_os_str() == below)
            {
                let text = fs::read_to_string(&path).unwrap();
                let decoded = yaml::documents(&text).unwrap().into_iter();
                found.extend(decoded.map(|document| (path.clone(), document.value)));
            }
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// A name as an identifier.
fn module(name: &str) -> String {
    name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// The value of an argument of `#[resource(…)]`.
fn argument<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = source.split_once(&format!("\n    {name} = \""))?;
    rest.split('"').next()
}

/// Generates the types of all CRDs into a project that prints the CRDs of the types, and the examples in its
/// input after they were decoded and encoded.
fn project(crds: &[(PathBuf, Value)]) -> Sampan {
    fs::create_dir_all(target().join("projects")).unwrap();
    let project = Sampan::at(target().join("projects/generated"));
    let (mut modules, mut calls) = (String::new(), String::new());
    for (path, crd) in crds {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let folder = module(name);
        let file = project.root().join(format!("{folder}.yaml"));
        fs::create_dir_all(project.root()).unwrap();
        fs::write(&file, crd.to_string()).unwrap();
        let is_golden = path.components().any(|it| it.as_os_str() == "golden");
        let flag = if is_golden { "--k8s-conditions" } else { "" };
        let command = format!("generate {} {flag} --output DIR/src/{folder}", file.display());
        project.run(&command).expect("each CRD has types");
        modules += &format!("pub mod {folder} {{\n");
        for (file, source) in files(&project.root().join("src").join(&folder)) {
            let module = file.trim_end_matches(".rs");
            let root = argument(&source, "root").or(argument(&source, "kind")).unwrap();
            let version = argument(&source, "version").unwrap();
            modules += &format!("    pub mod {module};\n");
            calls += &format!(
                "    cases.add::<{folder}::{module}::{root}>(\"{name}\", \"{version}\");\n"
            );
        }
        modules += "}\n";
    }
    let source = MAIN.replace("// MODULES\n", &modules).replace("    // CALLS\n", &calls);
    fs::write(project.root().join("src/main.rs"), source).unwrap();
    let runtime = workspace().join("crates/runtime");
    let manifest = format!(
        "[package]\nname = \"generated\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         runtime = {{ package = \"sampan-runtime\", path = \"{}\" }}\nserde = \"1\"\nserde_json = \"1\"\n\
         k8s-openapi = {{ version = \"0.29\", features = [\"v1_35\", \"schemars\"] }}\n\n[profile.dev]\ndebug = false\nincremental = false\n\n[workspace]\n",
        runtime.display()
    );
    fs::write(project.root().join("Cargo.toml"), manifest).unwrap();
    fs::copy(workspace().join("Cargo.lock"), project.root().join("Cargo.lock")).unwrap();
    project
}

/// The examples of each version, by `crd/version`, as a server stores them. An example that the schema
/// refuses, such as a template with variables, is left out.
fn examples(folder: &Path, crds: &[(PathBuf, Value)]) -> BTreeMap<String, Vec<Value>> {
    let mut schemas: BTreeMap<(String, String), (String, Structural)> = BTreeMap::new();
    for (_, crd) in crds {
        let (name, spec) = (crd["metadata"]["name"].as_str().unwrap(), &crd["spec"]);
        for version in spec["versions"].as_array().unwrap() {
            let version_name = version["name"].as_str().unwrap();
            let api_version = format!("{}/{version_name}", spec["group"].as_str().unwrap());
            let kind = spec["names"]["kind"].as_str().unwrap().to_owned();
            let schema = Structural::compile(&version["schema"]["openAPIV3Schema"]);
            schemas.insert((api_version, kind), (format!("{name}/{version_name}"), schema));
        }
    }
    let mut examples: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (_, object) in documents(folder, "examples") {
        let key = ["apiVersion", "kind"].map(|it| object[it].as_str().unwrap().to_owned());
        let (case, schema) = schemas.get(&key.into()).expect("each example has a CRD");
        let Value::Object(mut object) = object else { unreachable!() };
        schema.prune(&mut object, &mut Vec::new());
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("clusterName"); // not a field any more
        }
        if !accepts(schema, object.clone()) {
            continue;
        }
        examples.entry(case.clone()).or_default().push(Value::Object(object));
    }
    examples
}

fn accepts(schema: &Structural, mut object: Map<String, Value>) -> bool {
    let mut errors = ErrorList::new();
    schema.default(&mut object);
    schema.validate(&object, None, &mut errors);
    errors.iter().next().is_none()
}

/// Compares what the project has printed with the CRD.
fn compare_crd(crd: &Value, printed: &Map<String, Value>, differences: &mut Vec<String>) -> usize {
    let name = crd["metadata"]["name"].as_str().unwrap();
    let mut versions = 0;
    for version in crd["spec"]["versions"].as_array().unwrap() {
        let case = format!("{name}/{}", version["name"].as_str().unwrap());
        let mut alone = crd.clone();
        alone["spec"]["versions"] = json!([version]);
        let (wanted, made) = (comparable(&alone), comparable(&printed[&case]["crd"]));
        versions += 1;
        if let Some(path) = first_difference(&wanted, &made, "") {
            differences.push(format!("{case}: {path}"));
        }
    }
    versions
}

/// Where two values differ first, and how.
fn first_difference(wanted: &Value, made: &Value, path: &str) -> Option<String> {
    if wanted == made {
        return None;
    }
    if let (Value::Object(one), Value::Object(other)) = (wanted, made) {
        let names = one.keys().chain(other.keys());
        return names.into_iter().find_map(|name| {
            first_difference(&wanted[name], &made[name], &format!("{path}.{name}"))
        });
    }
    if let (Value::Array(one), Value::Array(other)) = (wanted, made)
        && one.len() == other.len()
    {
        let mut both = one.iter().zip(other).enumerate();
        return both.find_map(|(at, (a, b))| first_difference(a, b, &format!("{path}[{at}]")));
    }
    Some(format!("{path}: {wanted} became {made}"))
}

#[allow(clippy::print_stdout, reason = "the numbers are the result")]
#[test]
fn the_types_of_real_crds_make_the_same_crds_and_lose_nothing_of_the_examples() {
    if !compiles_projects() {
        return;
    }
    let Some(folder) = crd_folder() else { return };
    let real = documents(&folder, "crds");
    let mut crds: Vec<(PathBuf, Value)> =
        real.into_iter().filter(|(_, it)| it["kind"] == "CustomResourceDefinition").collect();
    let examples = examples(&folder, &crds);
    for name in GOLDEN_CRDS {
        let text = fs::read_to_string(golden_crd(name)).unwrap();
        let decoded = yaml::documents(&text).unwrap().into_iter();
        crds.extend(decoded.map(|it| (golden_crd(name), it.value)));
    }
    let project = project(&crds);
    let input = project.root().join("examples.json");
    fs::write(&input, serde_json::to_string(&examples).unwrap()).unwrap();
    let output = project.root().join("printed.json");
    let (from, to) = (input.display().to_string(), output.display().to_string());
    cargo(&project.root(), &["run", "--quiet", "--", &from, &to]);
    let printed: Map<String, Value> =
        serde_json::from_str(&fs::read_to_string(&output).unwrap()).unwrap();

    let (mut differences, mut versions, mut objects) = (Vec::new(), 0, 0);
    for (_, crd) in &crds {
        versions += compare_crd(crd, &printed, &mut differences);
    }
    for (case, sent) in &examples {
        let encoded = printed[case]["examples"].as_array().unwrap();
        for (number, (sent, encoded)) in sent.iter().zip(encoded).enumerate() {
            objects += 1;
            let (sent, encoded) = (normal_example(sent), normal_example(encoded));
            if let Some(path) = first_difference(&sent, &encoded, "") {
                differences.push(format!("{case}, example {number}: {path}"));
            }
        }
    }
    println!("{} CRDs, {versions} versions, {objects} examples", crds.len());
    for (known, reason) in
        KNOWN.iter().filter(|(known, _)| printed.keys().any(|it| known.starts_with(it)))
    {
        let count = differences.len();
        differences.retain(|difference| !difference.starts_with(known));
        assert!(differences.len() < count, "{known} no longer differs ({reason})");
    }
    assert!(differences.is_empty(), "{}: {}", differences.len(), differences.join("\n"));
    // The documentation of rustdoc has no warnings: no broken links, no tests, no HTML.
    let documentation = ["rustdoc", "--quiet", "--", "-D", "warnings"];
    cargo(&project.root(), &documentation);
}
