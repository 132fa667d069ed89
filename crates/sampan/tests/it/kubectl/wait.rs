//! `wait`: for a condition, for a value, for the end.

use crate::kubectl::manifests::{CONFIG_MAP, VPC, VPC_DEFINITION};
use crate::kubectl::{each, each_since};

#[test]
fn a_definition_is_established_at_once() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_DEFINITION);
        let line = "wait --for=condition=Established crd/vpcs.sampan.example.com --timeout=20s";
        assert_eq!(
            kubectl.does(line),
            "customresourcedefinition.apiextensions.k8s.io/vpcs.sampan.example.com condition met\n"
        );
    });
}

#[test]
fn a_condition_that_does_not_hold_is_not_met() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_DEFINITION);
        kubectl.fails("wait --for=condition=Terminating crd/vpcs.sampan.example.com --timeout=0s");
    });
}

#[test]
fn a_value_is_waited_for() {
    each_since(24, |kubectl| {
        kubectl.does_with("create -f -", VPC_DEFINITION);
        kubectl.does_with("create -f -", VPC);
        let mut wait =
            kubectl.starts("wait --for=jsonpath={.status.phase}=Ready vpc/one --timeout=20s");
        wait.until_it_watches();
        kubectl.does(
            r#"patch vpc one --subresource=status --type merge -p {"status":{"phase":"Ready"}}"#,
        );
        assert_eq!(wait.end(), (0, "vpc.sampan.example.com/one condition met".to_owned()));
    });
}

#[test]
fn the_end_of_an_object_is_waited_for() {
    each(|kubectl| {
        kubectl.does_with("create -f -", CONFIG_MAP);
        let mut wait = kubectl.starts("wait --for=delete cm/settings --timeout=20s");
        wait.until_it_watches();
        kubectl.does("delete cm settings");
        assert_eq!(wait.end(), (0, "configmap/settings condition met".to_owned()));
    });
}

#[test]
fn a_deletion_waits_until_the_last_finalizer_is_gone() {
    let held = CONFIG_MAP.replace("labels:", "finalizers: [example.com/hold], labels:");
    each(|kubectl| {
        kubectl.does_with("create -f -", &held);
        let mut deletion = kubectl.starts("delete cm settings --wait --timeout=20s");
        deletion.until_it_watches();
        kubectl.does(r#"patch cm settings --type merge -p {"metadata":{"finalizers":null}}"#);
        assert_eq!(deletion.end(), (0, "configmap \"settings\" deleted".to_owned()));
    });
}
