//! A custom resource Network with a CRD in version `v1beta1`, as in older textbooks.

use crate::kubectl::{assert_lines, each, table};

pub(super) const NETWORK_CRD: &str = "
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: networks.samplecrd.k8s.io
spec:
  group: samplecrd.k8s.io
  version: v1
  names:
    kind: Network
    plural: networks
  scope: Namespaced
";

const NETWORK: &str = "
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata:
  name: example-network
spec:
  cidr: \"192.168.0.0/16\"
  gateway: \"192.168.0.1\"
";

const GATEWAY: &str = "get network example-network -o jsonpath={.spec.gateway}";

#[test]
fn a_network_can_be_created_read_changed_and_deleted() {
    each(|kubectl| {
        let created = kubectl.does_with("apply -f -", NETWORK_CRD);
        assert_eq!(
            created,
            "customresourcedefinition.apiextensions.k8s.io/networks.samplecrd.k8s.io created\n"
        );
        let created = kubectl.does_with("apply -f -", NETWORK);
        assert_eq!(created, "network.samplecrd.k8s.io/example-network created\n");
        assert_eq!(table(&kubectl.does("get network")), "NAME AGE\nexample-network *");
        assert_lines(&kubectl.does("get crd"), &["NAME SCOPE VERSIONS CREATED AT"]);
        assert_lines(
            &kubectl.does("describe network example-network"),
            &[
                "Name: example-network",
                "Namespace: default",
                "API Version: samplecrd.k8s.io/v1",
                "Kind: Network",
                "Cidr: 192.168.0.0/16",
                "Gateway: 192.168.0.1",
                "Events: <none>",
            ],
        );

        let patch =
            r#"patch network example-network --type merge -p {"spec":{"gateway":"192.168.0.2"}}"#;
        assert_eq!(kubectl.does(patch), "network.samplecrd.k8s.io/example-network patched\n");
        assert_eq!(kubectl.does(GATEWAY), "192.168.0.2");
        let edited = kubectl.edits("network example-network", "s/192.168.0.2/192.168.0.3/");
        assert_eq!(edited.stdout, "network.samplecrd.k8s.io/example-network edited\n");
        assert_eq!(kubectl.does(GATEWAY), "192.168.0.3");

        let deleted = kubectl.does("delete network example-network");
        assert_eq!(deleted, "network.samplecrd.k8s.io \"example-network\" deleted\n");
        kubectl.does("delete crd networks.samplecrd.k8s.io");
        assert!(!kubectl.does("api-resources").contains("networks"));
    });
}

#[test]
fn a_v1beta1_crd_gets_a_warning() {
    each(|kubectl| {
        let outcome = kubectl.outcome("create -f -", NETWORK_CRD);
        let warning = "Warning: apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition";
        assert!(outcome.stderr.contains(warning), "{outcome:?}");
        assert_eq!(outcome.code, 0);
    });
}

#[test]
fn a_v1beta1_crd_without_a_schema_preserves_unknown_fields() {
    each(|kubectl| {
        kubectl.does_with("create -f -", NETWORK_CRD);
        kubectl.does_with("create -f -", &format!("{NETWORK}  vlan: {{id: 7}}\n"));
        let vlan = kubectl.does("get network example-network -o jsonpath={.spec.vlan.id}");
        assert_eq!(vlan, "7");
    });
}

#[test]
fn the_error_of_a_group_without_a_dot_names_field_and_remedy() {
    let manifest = NETWORK_CRD.replace("samplecrd.k8s.io", "network");
    each(|kubectl| {
        let error = kubectl.fails_with("create -f -", &manifest);
        let expected = "The CustomResourceDefinition \"networks.network\" is invalid: spec.group: Invalid value: \"network\": should be a domain with at least one dot";
        assert!(error.lines().any(|it| it == expected), "{error}");
    });
}
