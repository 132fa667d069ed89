//! The bootstrap of the example, checked by a real Envoy with the arguments of the injected container.
//!
//! `cargo xtask test` installs Envoy and names it in `SAMPAN_TEST_ENVOY`. Without it the test is
//! skipped, which is an error in continuous integration (`CI=true`).

#![allow(clippy::print_stderr, reason = "a skipped test is reported")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::requests::{PODS, annotated};
use crate::world::{BOOTSTRAP, World, decode};
use sidecar_operator::Mode;

/// The path of Envoy, unless the test is skipped.
fn program() -> Option<PathBuf> {
    let program = std::env::var_os("SAMPAN_TEST_ENVOY").map(PathBuf::from);
    if program.is_none() {
        let why = "SKIPPED: there is no Envoy to test with: run `cargo xtask test`";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("{why}");
    }
    program
}

/// The directory that the volume of the container becomes, with the files of the `ConfigMap`.
fn mount(pod: &Value, container: &Value) -> (String, tempfile::TempDir) {
    let mount = &container["volumeMounts"][0];
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    let map = decode(BOOTSTRAP);
    assert_eq!(volume["configMap"]["name"], map["metadata"]["name"]);
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in map["data"].as_object().unwrap() {
        fs::write(directory.path().join(name), content.as_str().unwrap()).unwrap();
    }
    (mount["mountPath"].as_str().unwrap().to_owned(), directory)
}

#[tokio::test]
async fn envoy_accepts_the_bootstrap_and_the_arguments_of_the_container() {
    let Some(envoy) = program() else { return };
    let world = World::start(Mode::Webhook).await;
    let pod = world.admin.create(PODS, &annotated("web")).await.unwrap();
    world.stop().await;
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let container = containers.iter().find(|container| container["name"] == "envoy").unwrap();
    assert_eq!(container["command"], serde_json::json!(["/usr/local/bin/envoy"]));
    let (path, directory) = mount(&pod, container);
    let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
        let argument = argument.as_str().unwrap().replace("--mode serve", "--mode validate");
        argument.replace(&path, directory.path().to_str().unwrap())
    });
    let arguments: Vec<String> = arguments.collect();
    assert!(arguments.contains(&"--mode validate".to_owned()), "{arguments:?}");
    let output = Command::new(&envoy).args(&arguments).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {stdout}{stderr}");
    assert!(stdout.contains("OK"), "{stdout}{stderr}");

    // A field that Envoy does not know is refused, so the check above means something.
    let file = directory.path().join("envoy.json");
    let broken = fs::read_to_string(&file).unwrap().replace("static_resources", "static_resource");
    fs::write(&file, broken).unwrap();
    let output = Command::new(&envoy).args(&arguments).output().unwrap();
    assert!(!output.status.success());
}
