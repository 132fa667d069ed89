//! The manifests of the textbook with real kubectls.
//!
//! `cargo xtask test` lists the kubectls in `SAMPAN_TEST_KUBECTL`; without it, the one of the path is
//! used. If there is none, the tests fail.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::world::{World, bare};
use sidecar_operator::Mode;

/// The `ConfigMap` of the textbook. Its line `config:|` is not YAML.
const CONFIG_MAP: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: envoy-initializer
data:
  config:|
    containers:
      - name: envoy
        image: lyft/envoy:845747db88f102c0fd262ab234308e9e22f693a1
        command: ["/usr/local/bin/envoy"]
        args:
          - "--concurrency 4"
          - "--config-path /etc/envoy/envoy.json"
          - "--mode serve"
        ports:
          - containerPort: 80
            protocol: TCP
        resources:
          limits:
            cpu: "1000m"
            memory: "512Mi"
          requests:
            cpu: "100m"
            memory: "64Mi"
        volumeMounts:
          - name: envoy-conf
            mountPath: /etc/envoy
    volumes:
      - name: envoy-conf
        configMap:
          name: envoy
"#;

/// The configuration of the textbook. Its comments are not YAML.
const INITIALIZER_CONFIGURATION: &str = r#"apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata:
  name: envoy-config
initializers:
  // 这个名字必须至少包括两个 "."
  - name: envoy.initializer.kubernetes.io
    rules:
      - apiGroups:
          - "" // 前面说过， "" 就是 core API Group 的意思
        apiVersions:
          - v1
        resources:
          - pods
"#;

const POD: &str = include_str!("../../example/pod.yaml");

/// The kubectls to test with, at least one.
fn programs() -> Vec<PathBuf> {
    let listed = std::env::var_os("SAMPAN_TEST_KUBECTL");
    let paths: Vec<_> = if let Some(listed) = &listed {
        std::env::split_paths(listed).collect()
    } else {
        let directories = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&directories).map(|directory| directory.join("kubectl"));
        found.filter(|path| path.is_file()).take(1).collect()
    };
    assert!(!paths.is_empty(), "there is no kubectl to test with: run `cargo xtask test`");
    paths
}

/// A kubectl with the rights of an administrator.
struct Kubectl {
    program: PathBuf,
    address: String,
    /// The home directory, with the certificates.
    home: TempDir,
}

impl Kubectl {
    fn new(program: PathBuf, world: &World) -> Self {
        let (home, server) = (tempfile::tempdir().unwrap(), world.cluster.server());
        let admin = server.admin().unwrap();
        fs::write(home.path().join("ca"), server.authority()).unwrap();
        fs::write(home.path().join("certificate"), admin.certificate).unwrap();
        fs::write(home.path().join("key"), admin.key).unwrap();
        Self { program, address: format!("https://{}", server.address().unwrap()), home }
    }

    /// Runs a command with a manifest on standard input; returns whether it succeeded, and its output.
    fn run(&self, line: &str, manifest: &str) -> (bool, String) {
        let mut child = Command::new(&self.program)
            .args(["--server", &self.address, "--certificate-authority", "ca"])
            .args(["--client-certificate", "certificate", "--client-key", "key"])
            .args(["--cache-dir", "cache"])
            .args(line.split(' '))
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.success(), text)
    }

    fn does(&self, line: &str, manifest: &str) -> String {
        let (succeeded, text) = self.run(line, manifest);
        assert!(succeeded, "{line}: {text}");
        text
    }

    fn fails(&self, line: &str, manifest: &str) -> String {
        let (succeeded, text) = self.run(line, manifest);
        assert!(!succeeded, "{line}: {text}");
        text
    }

    fn containers_of(&self, pod: &str) -> String {
        self.does(&format!("get pod {pod} -o jsonpath={{.spec.containers[*].name}}"), "")
    }
}

async fn listening(mode: Mode) -> World {
    let mut config = bare();
    config.server.listen = Some((Ipv4Addr::LOCALHOST, 0).into());
    let mut world = World::with(mode, config).await;
    world.start_operator().await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_config_map_of_the_textbook_works_with_a_space_after_the_colon() {
    let world = listening(Mode::Webhook).await;
    for program in programs() {
        let kubectl = Kubectl::new(program, &world);
        let refused = kubectl.fails("apply -f -", CONFIG_MAP);
        let expected = "yaml: line 7: mapping values are not allowed in this context";
        assert!(refused.contains(expected), "{refused}");
        kubectl.does("delete configmap envoy-initializer", "");
        let corrected = CONFIG_MAP.replace("config:|", "config: |");
        let created = kubectl.does("create -f -", &corrected);
        assert_eq!(created, "configmap/envoy-initializer created\n");
        world.settle().await;
        // A warning follows: the port of the textbook is also that of the pod.
        assert!(kubectl.does("apply -f -", POD).starts_with("pod/web created\n"));
        assert_eq!(kubectl.containers_of("web"), "web envoy");
        let image = kubectl.does("get pod web -o jsonpath={.spec.containers[1].image}", "");
        assert_eq!(image, "lyft/envoy:845747db88f102c0fd262ab234308e9e22f693a1");
        kubectl.does("delete pod web", "");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_initializer_configuration_of_the_textbook_works_with_yaml_comments() {
    let world = listening(Mode::Initializer).await;
    for program in programs() {
        let kubectl = Kubectl::new(program, &world);
        kubectl.does("delete initializerconfiguration envoy-config", "");
        let refused = kubectl.fails("create -f -", INITIALIZER_CONFIGURATION);
        assert!(refused.contains("error converting YAML to JSON: yaml: line "), "{refused}");
        let corrected = INITIALIZER_CONFIGURATION.replace("// ", "# ");
        let created = kubectl.does("create -f -", &corrected);
        let expected =
            "initializerconfiguration.admissionregistration.k8s.io/envoy-config created\n";
        assert_eq!(created, expected);
        assert_eq!(kubectl.does("create -f -", POD), "pod/web created\n");
        assert_eq!(kubectl.containers_of("web"), "web envoy");
        kubectl.does("delete pod web", "");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_events_of_the_config_map_explain_a_broken_configuration() {
    let world = listening(Mode::Webhook).await;
    for program in programs() {
        let kubectl = Kubectl::new(program, &world);
        world.configure("containers: [{name: envoy, imagee: x}]").await;
        let refused = kubectl.fails("apply -f -", POD);
        let why = "the key \"config\" of the ConfigMap default/envoy-initializer is not valid: \
            unknown field \"containers[0].imagee\"";
        assert!(refused.contains(why), "{refused}");
        let events = "/api/v1/namespaces/default/events?fieldSelector=reason=InvalidConfig";
        world.admin.until(events, |list| !list["items"].as_array().unwrap().is_empty()).await;
        let printed = kubectl.does("get events --field-selector reason=InvalidConfig", "");
        assert!(printed.contains("configmap/envoy-initializer"), "{printed}");
        assert!(printed.contains(why), "{printed}");
    }
    world.stop().await;
}
