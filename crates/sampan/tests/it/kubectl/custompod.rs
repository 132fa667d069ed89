//! The operator of `operators/custompod` over the network, used by kubectl.

use std::thread::JoinHandle;

use crate::kubectl::program::Program;
use crate::kubectl::session::Kubectl;
use crate::kubectl::{assert_lines, each, table};
use runtime::client::config::Config;
use runtime::kube_client::config::Kubeconfig;
use runtime::{Manager, ManagerOptions, client};

#[path = "../../../../../operators/custompod/src/controller.rs"]
mod controller;

const CRD: &str = include_str!("../../../../../operators/custompod/crd/custompods.yaml");
const EXAMPLE: &str =
    include_str!("../../../../../operators/custompod/example/custompod-sample.yaml");

/// The number of polls of the operator's result, enough for a busy machine.
const ATTEMPTS: usize = 1000;

/// The operator on a separate thread; stopped when dropped.
struct Operator {
    manager: Manager,
    thread: Option<JoinHandle<()>>,
}

impl Operator {
    fn start(kubectl: &Kubectl) -> Self {
        let kubeconfig = Kubeconfig::read_from(&kubectl.kubeconfig).unwrap();
        let (send, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let options =
                    ManagerOptions { handles_signals: false, ..ManagerOptions::default() };
                let config = Config::try_from(kubeconfig).unwrap();
                let client = client::connect(config, &options.clock).unwrap();
                let manager = Manager::new(client, options);
                manager.add(controller::controller(&manager));
                send.send(manager.clone()).unwrap();
                manager.run().await.unwrap();
            });
        });
        Self { manager: started.recv().unwrap(), thread: Some(thread) }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.manager.stop();
        // A thread that panicked has printed its message.
        let _ = self.thread.take().unwrap().join();
    }
}

fn wait_for(kubectl: &Kubectl, replicas: usize) -> Vec<String> {
    // Old kubectls cannot wait for a value.
    let status = "get custompod custompod-sample -o jsonpath={.status.replicas}";
    let is_reached = (0..ATTEMPTS).any(|_| kubectl.does(status) == replicas.to_string());
    assert!(is_reached, "the status did not show {replicas} replicas in time");
    // In a cluster with nodes, the deletion of a pod takes time.
    let names = kubectl.does(
        "get pods -l app=custompod-sample -o 'go-template={{range .items}}\
         {{if not .metadata.deletionTimestamp}}pod/{{.metadata.name}} {{end}}{{end}}'",
    );
    let names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
    assert_eq!(names.len(), replicas, "{names:?}");
    names
}

fn run_scenario(kubectl: &Kubectl) {
    kubectl.does_with("apply -f -", CRD);
    kubectl.does("wait crd/custompods.zhhnzw.mock.com --for=condition=Established");
    let operator = Operator::start(kubectl);
    kubectl.does_with("apply -f -", EXAMPLE);
    wait_for(kubectl, 1);
    kubectl.does_with("apply -f -", &EXAMPLE.replace("replicas: 1", "replicas: 3"));
    let three = wait_for(kubectl, 3);
    let listed = table(&kubectl.does("get custompod"));
    assert_eq!(listed, "NAME WANTED LIVE AGE\ncustompod-sample 3 3 *");
    assert_lines(
        &kubectl.does(&format!("describe {}", three[0])),
        &["Controlled By: CustomPod/custompod-sample"],
    );
    let scaled = kubectl.does("scale custompod custompod-sample --replicas=1");
    assert_eq!(scaled, "custompod.zhhnzw.mock.com/custompod-sample scaled\n");
    let one = wait_for(kubectl, 1);
    kubectl.does(&format!("delete {} --wait=false", one[0]));
    kubectl.does("scale custompod custompod-sample --replicas=2");
    wait_for(kubectl, 2);
    kubectl.does("delete custompod custompod-sample");
    drop(operator);
}

#[test]
fn the_operator_maintains_the_number_of_pods() {
    each(run_scenario);
}

#[test]
fn the_operator_works_in_another_cluster() {
    for program in Program::all() {
        let namespace = format!("custompod-test-{}", program.minor);
        let Some(kubectl) = Kubectl::in_test_cluster(program, &namespace) else { return };
        // Without controllers, a namespace has no service account, and pods need one.
        kubectl.outcome("create serviceaccount default", "");
        run_scenario(&kubectl);
        kubectl.does("delete pods --all --wait=false");
        kubectl.does("delete crd custompods.zhhnzw.mock.com");
        kubectl.does(&format!("delete namespace {namespace} --wait=false"));
    }
}
