//! The operator of `operators/vpc` over the network, used by kubectl.

use vpc_operator::{Options, add_to, manifests};

use crate::kubectl::session::Kubectl;
use crate::kubectl::v1beta1_crd::NETWORK_CRD;
use crate::kubectl::{each, each_alive, each_since, table};
use crate::operator::Operator;

const EXAMPLE: &str = include_str!("../../../../../operators/vpc/example/vpc-sample.yaml");

/// The CRD of the textbook, whose group has no dot.
const TEXTBOOK_CRD: &str = "
apiVersion: apiextensions.k8s.io/v1beta1

kind: CustomResourceDefinition

metadata:
    name: myresources.network
    
spec: 
    group: network
    
    version: v1
    names:
      kind: Vpc
      plural: myresources
    scope: Namespaced  
    shortNames:
    - vpc
";

fn start(kubectl: &Kubectl) -> Operator {
    Operator::start(&kubectl.kubeconfig, "vpc-operator", |manager| {
        add_to(manager, &Options::default());
    })
}

/// Waits until the sample has this number of Networks, and returns the table of them.
fn wait_for(kubectl: &Kubectl, count: usize) -> String {
    let status = "get vpc vpc-sample -o jsonpath={.status.subnetnum}";
    kubectl.until(|| kubectl.does(status) == count.to_string());
    let columns = "NAME:.metadata.name,CIDR:.spec.cidr,GATEWAY:.spec.gateway";
    table(&kubectl.does(&format!("get networks -o custom-columns={columns}")))
}

#[test]
fn the_operator_splits_the_block_into_networks() {
    each_alive(1, |kubectl| {
        // The operator writes the version of Networks that is stored.
        let networks = NETWORK_CRD.replace("version: v1\n", "version: v2\n");
        kubectl.does_with("apply -f -", &networks);
        kubectl.does_with("apply -f -", &manifests().join("---\n"));
        kubectl.does("wait crd/vpcs.network.example.com --for=condition=Established");
        let operator = start(kubectl);
        kubectl.does_with("apply -f -", EXAMPLE);
        let header = "NAME CIDR GATEWAY\nvpc-sample-0 10.0.0.0/17 10.0.0.1\n";
        assert_eq!(wait_for(kubectl, 2), format!("{header}vpc-sample-1 10.0.128.0/17 10.0.128.1"));
        // No operator makes the Networks.
        kubectl.does("wait vpc/vpc-sample --for=condition=Ready=False");
        let listed = table(&kubectl.does("get vpc"));
        assert_eq!(
            listed,
            "NAME BLOCK DESIRED CURRENT READY AGE\nvpc-sample 10.0.0.0/16 2 2 False *"
        );

        kubectl.does_with("apply -f -", &EXAMPLE.replace("subnetnum: 2", "subnetnum: 3"));
        let last = "vpc-sample-1 10.0.128.0/18 10.0.128.1\nvpc-sample-2 10.0.192.0/18 10.0.192.1";
        assert_eq!(wait_for(kubectl, 3), format!("{header}{last}"));
        drop(operator);
        kubectl.does("delete network vpc-sample-2");
        let operator = start(kubectl);
        kubectl.until(|| wait_for(kubectl, 3) == format!("{header}{last}"));

        let too_small = EXAMPLE.replace("10.0.0.0/16", "10.0.0.0/30");
        let refused = kubectl.fails_with("apply -f -", &too_small);
        let reason = "too small for the number of subnets, each of at least 4 addresses";
        assert!(refused.contains("spec.cidrblock") && refused.contains(reason), "{refused}");

        let pod = "run web --image=web --restart=Never --labels=network.example.com/vpc=shop";
        kubectl.does(pod);
        let pods = "get vpc vpc-sample -o jsonpath={.status.podNames}";
        kubectl.until(|| kubectl.does(pods).contains("web"));
        drop(operator);
        kubectl.does("delete vpc vpc-sample");
        kubectl.until_gone("networks");
    });
}

#[test]
fn the_errors_of_the_textbooks_crd_name_the_fields_and_the_fix() {
    // Older kubectls check fields by themselves.
    each_since(27, |kubectl| {
        let error = kubectl.fails_with("create -f -", TEXTBOOK_CRD);
        assert!(
            error.ends_with("strict decoding error: unknown field \"spec.shortNames\""),
            "{error}"
        );
    });
    let short_names = ("    shortNames:\n    - vpc\n", "");
    let names =
        ("      plural: myresources\n", "      plural: myresources\n      shortNames: [vpc]\n");
    let moved = [short_names, names].iter().fold(TEXTBOOK_CRD.to_owned(), |crd, (from, to)| {
        assert!(crd.contains(from));
        crd.replace(from, to)
    });
    each(|kubectl| {
        let error = kubectl.fails_with("create -f -", &moved);
        let expected = "The CustomResourceDefinition \"myresources.network\" is invalid: spec.group: Invalid value: \"network\": should be a domain with at least one dot";
        assert!(error.lines().any(|it| it == expected), "{error}");
        kubectl.does_with("create -f -", &moved.replace("network\n", "network.example.com\n"));
        assert_eq!(kubectl.does("get vpc"), "");
    });
}
