//! Projects that are compiled, and whose tests pass.
//!
//! The dependencies are compiled once, into `target/scaffold`; with them, this takes some 30 seconds on
//! two cores, and without them some 5 minutes. `cargo xtask ci` does it (`SAMPAN_TEST_PROJECTS=1`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::command_line::Sampan;
use crate::golden::{EVERYTHING, golden_file};
use crate::image::unpack;
use crate::programs::{is_root, run};
use machinery::{Value, json};
use testenv::TestEnv;

/// Whether projects are compiled. If not, the test says so.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn compiles_projects() -> bool {
    let compiles = std::env::var_os("SAMPAN_TEST_PROJECTS").is_some();
    if !compiles {
        eprintln!(
            "skipped: projects are compiled by `cargo xtask ci`, with SAMPAN_TEST_PROJECTS=1"
        );
    }
    compiles
}

/// The folder of the workspace.
pub(crate) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The target folder of this test's own build.
pub(crate) fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().join("scaffold")
}

/// Runs cargo in a project, without the network, and returns its output.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap();
    let text =
        [ran.stdout, ran.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    assert!(ran.status.success(), "cargo {arguments:?}: {text}");
    text
}

/// A project whose dependencies are the crates of this checkout, in the tested versions.
fn project(name: &str) -> Sampan {
    // Once, since the tests run at the same time.
    fs::create_dir_all(target().join("projects")).unwrap();
    let project = Sampan::at(target().join("projects").join(name));
    project.run_all(EVERYTHING);
    let crates = format!("path = \"{}/crates", workspace().display());
    for name in ["runtime", "testenv"] {
        let released = format!("\"sampan-{name}\", version = \"0.1.0\"");
        project.replace("Cargo.toml", &released, &format!("\"sampan-{name}\", {crates}/{name}\""));
    }
    fs::copy(workspace().join("Cargo.lock"), project.root().join("Cargo.lock")).unwrap();
    fs::create_dir(project.root().join(".cargo")).unwrap();
    fs::write(project.root().join(".cargo/config.toml"), "net.offline = true\n").unwrap();
    project
}

#[test]
fn a_project_is_formatted_has_no_warnings_and_its_tests_are_the_source_of_its_roles() {
    if !compiles_projects() {
        return;
    }
    let project = project("roles");
    let root = project.root();
    cargo(&root, &["fmt", "--check"]);
    let pedantic =
        ["-W", "clippy::pedantic", "-W", "missing_docs", "-A", "clippy::missing_errors_doc"];
    cargo(&root, &[&["clippy", "--all-targets", "--", "-D", "warnings"][..], &pedantic].concat());
    let tested = cargo(&root, &["test"]);
    assert!(tested.contains("test result: ok. 5 passed"), "{tested}");

    let target = target().display().to_string();
    let manifests = format!("manifests --project DIR --target-dir {target}");
    let printed = project.run(&manifests).unwrap();
    let documents = printed.split("running the tests").next().unwrap();
    golden_file("everything.yaml", documents);
    // The record of the tests is used again.
    let chart =
        format!("{manifests} --skip-tests --format helm --image mock.com:5000/a:v1 -o DIR/chart");
    let created = project.run(&chart).unwrap();
    assert!(created.contains("DIR/chart/templates/deployment.yaml"), "{created}");
    assert!(project.read("chart/values.yaml").contains("image: mock.com:5000/a:v1"));
    let folder = format!("{manifests} --skip-tests --format kustomize -n other -o DIR/deploy");
    project.run(&folder).unwrap();
    assert!(project.read("deploy/deployment.yaml").contains("namespace: other"));
    assert!(project.read("deploy/kustomization.yaml").contains("- deployment.yaml"));
    let pushed = "registry.example.com/team/demo:v1@sha256:0";
    let record = json!({"image": pushed}).to_string();
    fs::write(root.join("target/sampan/pushed.json"), record).unwrap();
    let printed = project.run(&format!("{manifests} --skip-tests")).unwrap();
    assert!(printed.contains(&format!("image: {pushed}")), "{printed}");
}

#[test]
fn the_image_of_a_project_runs_with_its_own_files_alone() {
    if !compiles_projects() || !is_root() {
        return;
    }
    let project = project("image");
    // The optimized dependencies would take some minutes more.
    project.replace(
        ".cargo/config.toml",
        "net.offline",
        "profile.release.opt-level = 0\nnet.offline",
    );
    let build = format!("image build --project DIR --target-dir {}", target().display());
    let built = project.run(&build).unwrap();
    assert_eq!(project.run(&build).unwrap(), built);
    let root = unpack(&project);
    let program = "/usr/local/bin/operator-demo";
    let printed = run("chroot", &[root.path().to_str().unwrap(), program, "manifests"]);
    assert!(printed.contains("CustomResourceDefinition"), "{printed}");
}

/// The arguments of `sampan run`.
#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: toolkit::RunArgs,
}

/// They are applied after the others.
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CUSTOM_PODS: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods";

fn custom_pod(name: &str) -> Value {
    json!({
        "apiVersion": "zhhnzw.mock.com/v1", "kind": "CustomPod", "metadata": {"name": name},
        "spec": {"replicas": 2},
    })
}

/// Waits until the operator has reported this reason.
async fn wait_for_reason(env: &TestEnv, reason: &str) {
    let path = format!("{CUSTOM_PODS}/a");
    let limit = Duration::from_mins(5); // a build
    let reported = async {
        while env.get(&path).await.1["status"]["conditions"][0]["reason"] != reason {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(limit, reported).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn run_serves_webhooks_and_starts_the_operator_again_after_a_change() {
    if !compiles_projects() {
        return;
    }
    let project = project("run");
    let env = TestEnv::builder().system_clock().listen().start().await;
    let kubeconfig = project.root().join("kubeconfig");
    fs::write(&kubeconfig, env.kubeconfig()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let words = [
        "run".to_owned(),
        format!("--project={}", project.root().display()),
        format!("--target-dir={}", target().display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--webhook-listen={port}"),
    ];
    let line = <Line as clap::Parser>::try_parse_from(words).unwrap();
    let (mut results, mut notes) = (Vec::new(), Vec::new());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let steps = async {
        // Until then, the CRD may be served without its webhooks; later, they may not be served yet.
        let limit = Duration::from_mins(5);
        let created = async {
            while env.get(&format!("{WEBHOOKS}/operator-demo")).await.0 != 200 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            while env.post(CUSTOM_PODS, &custom_pod("a")).await.0 != 201 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(limit, created).await.unwrap();
        let object = env.read(&format!("{CUSTOM_PODS}/a")).await;
        let label = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        assert_eq!(label, "operator-demo"); // by the mutating webhook
        let (code, status) = env.post(CUSTOM_PODS, &custom_pod(&"a".repeat(61))).await;
        assert_eq!((code, &status["reason"]), (422, &json!("Invalid"))); // by the validating one
        let path = "/apis/zhhnzw.mock.com/v3/namespaces/default/custompods/a";
        assert_eq!(env.read(path).await["spec"]["replicas"], 2); // by the conversion
        wait_for_reason(&env, "Reconciled").await;

        project.replace("src/custom_pod/controller.rs", "\"Reconciled\"", "\"Changed\"");
        wait_for_reason(&env, "Changed").await;
        stop.send(()).unwrap();
    };
    let mut output = toolkit::Output::new(&mut results, &mut notes);
    let stopped = async { stopped.await.unwrap() };
    let (ran, ()) = tokio::join!(line.args.run(stopped, &mut output), steps);
    ran.unwrap();
    let notes = String::from_utf8(notes).unwrap();
    assert!(notes.contains("the sources have changed"), "{notes}");
    assert_eq!(env.read(WEBHOOKS).await["items"], json!([]));
    env.stop().await.unwrap();
}
