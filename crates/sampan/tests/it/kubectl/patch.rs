//! `patch`: each type of patch, of the object and of its status.

use crate::kubectl::manifests::{POD, VPC, VPC_CRD};
use crate::kubectl::session::Kubectl;
use crate::kubectl::{each, each_since};

fn prepare(kubectl: &Kubectl) {
    kubectl.does_with("create -f -", &format!("{VPC_CRD}---{POD}"));
    kubectl.does_with("create -f -", VPC);
}

#[test]
fn a_merge_patch_changes_the_named_fields() {
    each(|kubectl| {
        prepare(kubectl);
        let printed = kubectl.does(r#"patch vpc one --type merge -p {"spec":{"replicas":3}}"#);
        assert_eq!(printed, "vpc.sampan.example.com/one patched\n");
        let spec = kubectl.does("get vpc one -o jsonpath={.spec.cidr},{.spec.replicas}");
        assert_eq!(spec, "10.0.0.0/8,3");
        let again = kubectl.does(r#"patch vpc one --type merge -p {"spec":{"replicas":3}}"#);
        assert_eq!(again, "vpc.sampan.example.com/one patched (no change)\n");
        kubectl.does(r#"patch pod web --type merge -p {"metadata":{"labels":{"app":null}}}"#);
        assert_eq!(kubectl.does("get pod web -o jsonpath={.metadata.labels}"), "");
    });
}

#[test]
fn a_json_patch_is_atomic() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does(r#"patch vpc one --type json -p '[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/cidr","value":"10.1.0.0/16"}]'"#);
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.cidr}"), "10.1.0.0/16");
        let error = kubectl.fails(r#"patch vpc one --type json -p '[{"op":"remove","path":"/spec/cidr"},{"op":"test","path":"/spec/replicas","value":9}]'"#);
        assert!(!error.is_empty());
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.cidr}"), "10.1.0.0/16");
    });
}

#[test]
fn a_strategic_patch_merges_containers_by_name() {
    each(|kubectl| {
        prepare(kubectl);
        let patch = r#"{"spec":{"containers":[{"name":"web","image":"nginx:1.28"}]}}"#;
        assert_eq!(kubectl.does(&format!("patch pod web -p {patch}")), "pod/web patched\n");
        let path = "jsonpath={range .spec.containers[*]}{.image},{.ports[*].containerPort}{end}";
        assert_eq!(kubectl.does(&format!("get pod web -o '{path}'")), "nginx:1.28,80");
        let error = kubectl.fails(r#"patch vpc one -p {"spec":{"replicas":2}}"#);
        assert!(error.contains("application/merge-patch+json"), "{error}");
    });
}

#[test]
fn an_invalid_patch_is_refused() {
    each(|kubectl| {
        prepare(kubectl);
        assert_eq!(
            kubectl.fails(r#"patch vpc one --type merge -p {"spec":{"replicas":11}}"#),
            "The Vpc \"one\" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10"
        );
        let error = kubectl.fails(r#"patch pod web -p {"spec":{"restartPolicy":"Never"}}"#);
        assert!(error.contains("pod updates may not change fields other than"), "{error}");
        assert_eq!(
            kubectl.fails("patch vpc nothing --type merge -p {}"),
            "Error from server (NotFound): vpcs.sampan.example.com \"nothing\" not found"
        );
    });
}

#[test]
fn a_dry_run_patch_changes_nothing() {
    each(|kubectl| {
        prepare(kubectl);
        let patch = r#"patch vpc one --type merge --dry-run=server -p {"spec":{"replicas":3}}"#;
        assert!(kubectl.does(patch).starts_with("vpc.sampan.example.com/one patched"));
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.replicas}"), "1");
    });
}

#[test]
fn a_patch_of_the_status_changes_only_the_status() {
    each_since(24, |kubectl| {
        prepare(kubectl);
        let both = r#"{"spec":{"replicas":9},"status":{"phase":"Ready"}}"#;
        kubectl.does(&format!("patch vpc one --subresource=status --type merge -p {both}"));
        let path = "jsonpath={.spec.replicas},{.status.phase}";
        assert_eq!(kubectl.does(&format!("get vpc one -o {path}")), "1,Ready");
        kubectl.does(r#"patch vpc one --type merge -p {"status":{"phase":"Lost"}}"#);
        assert_eq!(kubectl.does(&format!("get vpc one --subresource=status -o {path}")), "1,Ready");
        kubectl.does(r#"patch pod web --subresource=status -p {"status":{"phase":"Running"}}"#);
        assert_eq!(kubectl.does("get pod web -o jsonpath={.status.phase}"), "Running");
    });
}
