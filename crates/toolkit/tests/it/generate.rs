//! `sampan generate`: what it writes for the CRDs in `golden/generate`, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};

use futures_util::FutureExt;

use crate::command_line::{Sampan, files};
use crate::golden::golden_file;
use machinery::codec::yaml;
use testenv::TestEnv;

/// The CRDs whose types are in `golden/generate`.
pub(crate) const GOLDEN_CRDS: [&str; 4] = ["fields", "objects", "names", "odd"];

/// The path of a CRD in `golden/generate`.
pub(crate) fn golden_crd(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/generate/{name}.yaml"))
}

/// The command for one of them.
pub(crate) fn golden_command(name: &str) -> String {
    let flag = if name == "objects" { " --k8s-conditions" } else { "" };
    format!("generate {}{flag}", golden_crd(name).display())
}

/// An empty folder.
fn folder() -> Sampan {
    let sampan = Sampan::new();
    fs::create_dir(sampan.root()).unwrap();
    sampan
}

#[test]
fn the_types_of_a_crd_say_what_its_schema_says() {
    for name in GOLDEN_CRDS {
        let sampan = folder();
        let command = format!("{} --output DIR/{name}", golden_command(name));
        let printed = sampan.run(&command).unwrap();
        for (path, text) in files(&sampan.root()) {
            golden_file(&format!("generate/{path}"), &text);
            assert!(printed.contains(&format!("created DIR/{path}")), "{printed}");
        }
        golden_file(&format!("generate/{name}.txt"), &printed);
    }
}

#[test]
fn one_version_is_printed() {
    let sampan = folder();
    let crd = golden_crd("objects");
    let error = sampan.run(&format!("generate {}", crd.display())).unwrap_err();
    assert!(error.contains("write them to a folder with --output DIR"), "{error}");
    let crd = golden_crd("fields");
    let printed = sampan.run(&format!("generate {}", crd.display())).unwrap();
    assert!(printed.contains("has several versions, and these are the types of v1:"), "{printed}");
    let text = fs::read_to_string(&crd).unwrap();
    let printed = sampan.run_with("generate - --version v1alpha1", &text).now_or_never().unwrap();
    assert!(printed.unwrap().starts_with("//! The kind `Gadget` of example.com/v1alpha1."));
    let error = sampan.run(&format!("generate {} --version v3", crd.display())).unwrap_err();
    assert!(error.contains("has no version v3: choose one of v1alpha1, v1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_the_server_has_the_types_of_its_file() {
    let env = TestEnv::builder().system_clock().listen().start().await;
    let text = fs::read_to_string(golden_crd("names")).unwrap();
    let crd = &yaml::documents(&text).unwrap()[0].value;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(env.post(path, crd).await.0, 201);
    let sampan = folder();
    fs::write(sampan.root().join("kubeconfig"), env.kubeconfig()).unwrap();
    let command = "generate --kubeconfig DIR/kubeconfig --crd";
    let printed = sampan.run_with(&format!("{command} options.example.com"), "").await.unwrap();
    golden_file("generate/names/option_v1.rs", &printed);
    let error = sampan.run_with(&format!("{command} others.example.com"), "").await.unwrap_err();
    assert!(error.contains("the server has no CRD others.example.com"), "{error}");
    let error = sampan.run_with(&format!("{command} ../options"), "").await.unwrap_err();
    assert!(error.contains("is its plural and its group, such as"), "{error}");
    env.stop().await.unwrap();
}

#[test]
fn kinds_of_the_same_name_are_told_apart_by_their_groups() {
    let sampan = folder();
    let crd = fs::read_to_string(golden_crd("fields")).unwrap();
    let other = crd.replace("group: example.com", "group: other-example.com");
    fs::write(sampan.root().join("both.yaml"), format!("{crd}---\n{other}")).unwrap();
    sampan.run("generate DIR/both.yaml --version v1 --output DIR/new").unwrap();
    let made = files(&sampan.root().join("new"));
    let names: Vec<&str> = made.keys().map(String::as_str).collect();
    assert_eq!(names, ["gadget_example_com_v1.rs", "gadget_other_example_com_v1.rs"]);
}

#[test]
fn files_that_exist_are_overwritten_only_by_force() {
    let sampan = folder();
    let command = format!("generate {} --output DIR/gadget.rs", golden_crd("fields").display());
    sampan.run(&command).unwrap();
    fs::write(sampan.root().join("gadget.rs"), "mine").unwrap();
    let error = sampan.refused(&command);
    assert!(error.contains("DIR/gadget.rs would be overwritten"), "{error}");
    sampan.run(&format!("{command} --force")).unwrap();
    assert!(sampan.read("gadget.rs").starts_with("//!"));
    fs::write(sampan.root().join("file"), "").unwrap();
    let error =
        sampan.refused(&format!("generate {} --output DIR/file", golden_crd("fields").display()));
    assert!(error.contains("nothing was changed"), "{error}");
}

#[test]
fn bad_input_is_refused_and_says_what_to_do() {
    let sampan = folder();
    let crd = fs::read_to_string(golden_crd("fields")).unwrap();
    let role = "apiVersion: v1\nkind: Role\n".to_owned();
    for (name, text, expected) in [
        ("tabs", "a:\n\t- b\n".to_owned(), "is neither YAML nor JSON"),
        ("role", role, "has no CustomResourceDefinition, but a Role: name the file of a CRD"),
        (
            "old",
            crd.replace("extensions.k8s.io/v1", "extensions.k8s.io/v1beta1"),
            "no longer accept",
        ),
        (
            "bare",
            crd.replace("openAPIV3Schema", "schema"),
            "v1alpha1 of gadgets.example.com has no schema",
        ),
        ("ref", crd.replace("maxLength", "$ref"), "has a $ref"),
    ] {
        fs::write(sampan.root().join(name), text).unwrap();
        let error = sampan.refused(&format!("generate DIR/{name} --output DIR/new"));
        assert!(error.contains(expected), "{name}: {error}");
    }
    for (command, expected) in [
        ("generate DIR/missing", "cannot read DIR/missing: No such file"),
        ("generate DIR", "cannot read DIR: Is a directory"),
        ("generate", "<FILE>"),
        ("generate a.yaml --force", "--output"),
    ] {
        let error = sampan.refused(command);
        assert!(error.contains(expected), "{command}: {error}");
    }
    let twice = golden_crd("fields");
    let error = sampan.refused(&format!("generate {0} {0} --output DIR/new", twice.display()));
    assert!(error.contains("would both be written to gadget_v1alpha1.rs"), "{error}");
}
