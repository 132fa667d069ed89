//! The operators of the textbook in the process of the server (`sampan up --with`), used by kubectl.

use crate::kubectl::program::Program;
use crate::kubectl::session::Kubectl;
use crate::kubectl::table;
use crate::plane::Plane;

const EXAMPLES: [&str; 5] = [
    include_str!("../../../../../operators/network/example/example-network.yaml"),
    include_str!("../../../../../operators/vpc/example/vpc-sample.yaml"),
    include_str!("../../../../../operators/custompod/example/custompod-sample.yaml"),
    include_str!("../../../../../operators/sidecar/example/envoy-initializer.yaml"),
    include_str!("../../../../../operators/sidecar/example/pod.yaml"),
];

#[test]
fn all_operators_run_beside_the_server_with_the_rights_of_their_accounts() {
    for program in Program::all() {
        let plane = Plane::with_operators("network,vpc,custompod,sidecar");
        let kubectl = Kubectl::with_plane(program, plane);
        for example in EXAMPLES {
            kubectl.does_with("apply -f -", example);
        }
        let value = |object: &str, path: &str| {
            kubectl.does(&format!("get {object} -o jsonpath={{{path}}}"))
        };
        kubectl
            .until(|| value("network example-network", ".status.conditions[0].status") == "True");
        kubectl.until(|| value("vpc vpc-sample", ".status.subnetnum") == "2");
        kubectl.until(|| value("custompod custompod-sample", ".status.replicas") == "1");
        assert_eq!(value("pod web", ".spec.containers[*].name"), "web envoy");
        let networks =
            table(&kubectl.does("get networks -o custom-columns=N:.metadata.name,C:.spec.cidr"));
        assert_eq!(
            networks,
            "N C\nexample-network 192.168.0.0/16\nvpc-sample-0 10.0.0.0/17\nvpc-sample-1 10.0.128.0/17"
        );
        let overlapping = EXAMPLES[0].replace("example-network", "another");
        let refused = kubectl.fails_with("create -f -", &overlapping);
        assert!(refused.contains("192.168.0.0/16"), "{refused}");
        kubectl.does("delete network example-network");
        assert!(kubectl.fails("get network example-network").contains("NotFound"));
        let health = kubectl.does("get --raw /readyz?verbose");
        assert!(health.contains("[+]network-operator ok"), "{health}");
    }
}

#[test]
fn a_plane_without_its_operators_does_not_call_their_webhooks() {
    let directory = tempfile::tempdir().unwrap();
    let start = |operators: Option<&str>| match operators {
        Some(operators) => Plane::embedded_with_operators(directory.path(), operators),
        None => Plane::embedded_alive(directory.path()),
    };
    let [network, vpc, _, _, pod] = EXAMPLES;
    let program = &Program::all()[0];

    let kubectl = Kubectl::with_plane(program, start(Some("network,vpc,sidecar")));
    kubectl.does_with("apply -f -", network);
    kubectl.does("wait --for=condition=Ready network/example-network");
    kubectl.plane.unwrap().kill();

    let kubectl = Kubectl::with_plane(program, start(None));
    let old = kubectl.does("get networks.v1.samplecrd.k8s.io -o name");
    assert_eq!(old, "network.samplecrd.k8s.io/example-network\n");
    let overlapping = network.replace("example-network", "another");
    kubectl.does_with("create -f -", &overlapping);
    kubectl.does("delete network another --wait=false");
    kubectl.does_with("create -f -", pod);
    kubectl.plane.unwrap().kill();

    let kubectl = Kubectl::with_plane(program, start(Some("network,vpc")));
    kubectl.does_with("apply -f -", vpc);
    kubectl.does("wait --for=create network/vpc-sample-1");
    kubectl.does("wait --for=condition=Ready network/vpc-sample-1");
    let refused = kubectl.fails_with("create -f -", &overlapping);
    assert!(refused.contains("192.168.0.0/16"), "{refused}");
}
