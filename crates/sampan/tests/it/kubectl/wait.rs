//! `wait`: for a condition, for a value, for a deletion.

use crate::kubectl::manifests::{CONFIG_MAP, VPC, VPC_CRD};
use crate::kubectl::{each, each_since};

#[test]
fn kubectl_waits_until_a_crd_is_established() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let line = "wait --for=condition=Established crd/vpcs.sampan.example.com --timeout=20s";
        assert_eq!(
            kubectl.does(line),
            "customresourcedefinition.apiextensions.k8s.io/vpcs.sampan.example.com condition met\n"
        );
    });
}

#[test]
fn waiting_for_a_false_condition_times_out() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        kubectl.fails("wait --for=condition=Terminating crd/vpcs.sampan.example.com --timeout=0s");
    });
}

#[test]
fn kubectl_waits_for_a_value() {
    each_since(24, |kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        kubectl.does_with("create -f -", VPC);
        let mut wait =
            kubectl.starts("wait --for=jsonpath={.status.phase}=Ready vpc/one --timeout=20s");
        wait.until_watching();
        kubectl.does(
            r#"patch vpc one --subresource=status --type merge -p {"status":{"phase":"Ready"}}"#,
        );
        assert_eq!(wait.end(), (0, "vpc.sampan.example.com/one condition met".to_owned()));
    });
}

#[test]
fn kubectl_waits_for_a_deletion() {
    each(|kubectl| {
        kubectl.does_with("create -f -", CONFIG_MAP);
        let mut wait = kubectl.starts("wait --for=delete cm/settings --timeout=20s");
        wait.until_watching();
        kubectl.does("delete cm settings");
        assert_eq!(wait.end(), (0, "configmap/settings condition met".to_owned()));
    });
}

#[test]
fn kubectl_delete_waits_until_the_last_finalizer_is_removed() {
    let with_finalizer = CONFIG_MAP.replace("labels:", "finalizers: [example.com/hold], labels:");
    each(|kubectl| {
        kubectl.does_with("create -f -", &with_finalizer);
        let mut deletion = kubectl.starts("delete cm settings --wait --timeout=20s");
        deletion.until_watching();
        kubectl.does(r#"patch cm settings --type merge -p {"metadata":{"finalizers":null}}"#);
        assert_eq!(deletion.end(), (0, "configmap \"settings\" deleted".to_owned()));
    });
}
