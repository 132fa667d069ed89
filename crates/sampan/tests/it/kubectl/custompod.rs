//! The operator of `operators/custompod` over the network, used by kubectl.

use custompod_operator::{Options, add_to, manifests};

use crate::kubectl::program::Program;
use crate::kubectl::session::Kubectl;
use crate::kubectl::{assert_lines, each, each_alive, table};
use crate::operator::Operator;

const EXAMPLE: &str =
    include_str!("../../../../../operators/custompod/example/custompod-sample.yaml");
const IMOOC_EXAMPLE: &str =
    include_str!("../../../../../operators/custompod/example/imoocpod-sample.yaml");

fn install(kubectl: &Kubectl) -> Operator {
    kubectl.does_with("apply -f -", &manifests().join("---\n"));
    for crd in ["custompods.zhhnzw.mock.com", "imoocpods.k8s.imooc.com"] {
        kubectl.does(&format!("wait crd/{crd} --for=condition=Established"));
    }
    start(kubectl)
}

/// Starts the operator, with the rights of its service account.
fn start(kubectl: &Kubectl) -> Operator {
    Operator::start(&kubectl.kubeconfig, "custompod-operator", |manager| {
        add_to(manager, &Options::default());
    })
}

fn wait_for(kubectl: &Kubectl, object: &str, replicas: usize) -> Vec<String> {
    // Old kubectls cannot wait for a value.
    let status = format!("get {object} -o jsonpath={{.status.replicas}}");
    kubectl.until(|| kubectl.does(&status) == replicas.to_string());
    // In a cluster with nodes, the deletion of a pod takes time.
    let (_, name) = object.split_once(' ').unwrap();
    let names = kubectl.does(&format!(
        "get pods -l app={name} -o 'go-template={{{{range .items}}}}\
         {{{{if not .metadata.deletionTimestamp}}}}pod/{{{{.metadata.name}}}} {{{{end}}}}{{{{end}}}}'"
    ));
    let names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
    assert_eq!(names.len(), replicas, "{names:?}");
    names
}

const SAMPLE: &str = "custompod custompod-sample";

fn run_scenario(kubectl: &Kubectl) {
    let operator = install(kubectl);
    kubectl.does_with("apply -f -", EXAMPLE);
    wait_for(kubectl, SAMPLE, 1);
    kubectl.does_with("apply -f -", &EXAMPLE.replace("replicas: 1", "replicas: 3"));
    let three = wait_for(kubectl, SAMPLE, 3);
    let listed = table(&kubectl.does("get custompod"));
    assert_eq!(listed, "NAME DESIRED CURRENT AGE\ncustompod-sample 3 3 *");
    assert_lines(
        &kubectl.does(&format!("describe {}", three[0])),
        &["Controlled By: CustomPod/custompod-sample"],
    );
    let scaled = kubectl.does("scale custompod custompod-sample --replicas=1");
    assert_eq!(scaled, "custompod.zhhnzw.mock.com/custompod-sample scaled\n");
    let one = wait_for(kubectl, SAMPLE, 1);
    kubectl.does(&format!("delete {} --wait=false", one[0]));
    kubectl.does("scale custompod custompod-sample --replicas=2");
    wait_for(kubectl, SAMPLE, 2);
    kubectl.does("delete custompod custompod-sample");
    drop(operator);
}

#[test]
fn the_operator_maintains_the_number_of_pods() {
    each(run_scenario);
}

#[test]
fn pods_run_follow_a_restarted_operator_and_are_deleted_with_their_owner() {
    each_alive(1, |kubectl| {
        let operator = install(kubectl);
        kubectl.does_with("apply -f -", IMOOC_EXAMPLE);
        wait_for(kubectl, "imoocpod imoocpod-sample", 1);
        kubectl.does("scale imoocpod imoocpod-sample --replicas=3");
        let pods = wait_for(kubectl, "imoocpod imoocpod-sample", 3);
        kubectl.does(&format!("wait --for=condition=Ready {}", pods.join(" ")));
        assert_eq!(
            table(&kubectl.does("get imoocpods")),
            "NAME DESIRED CURRENT AGE\nimoocpod-sample 3 3 *"
        );
        kubectl.until(|| kubectl.does("get events").contains("created 2 pods, from 1 to 3"));
        drop(operator);
        kubectl.does("scale imoocpod imoocpod-sample --replicas=5");
        kubectl.does("delete pod imoocpod-sample-1");
        let operator = start(kubectl);
        wait_for(kubectl, "imoocpod imoocpod-sample", 5);
        drop(operator);
        kubectl.does("delete imoocpod imoocpod-sample");
        kubectl.until_gone("pods");
        let operator = start(kubectl);
        kubectl.does_with("apply -f -", EXAMPLE);
        wait_for(kubectl, SAMPLE, 1);
        assert_eq!(kubectl.does("get pods -o name"), "pod/custompod-sample-0\n");
        drop(operator);
    });
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
        kubectl.does_with("delete --wait=false -f -", &manifests().join("---\n"));
        kubectl.does(&format!("delete namespace {namespace} --wait=false"));
    }
}
