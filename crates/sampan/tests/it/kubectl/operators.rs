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
