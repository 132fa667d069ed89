//! `delete`: by name, by label, all objects, gracefully and by force.

use crate::kubectl::manifests::{CONFIG_MAP, NAMESPACE, POD, VPC, VPC_CRD};
use crate::kubectl::session::Kubectl;
use crate::kubectl::{each, table};

fn prepare(kubectl: &Kubectl) {
    kubectl.does_with("create -f -", VPC_CRD);
    for manifest in [VPC, CONFIG_MAP] {
        let second =
            manifest.replace("{name: ", "{name: b-").replace("front", "back").replace("web", "db");
        kubectl.does_with("create -f -", &format!("{manifest}---{second}"));
    }
}

#[test]
fn objects_are_deleted_by_name_by_manifest_by_label_and_all_together() {
    each(|kubectl| {
        prepare(kubectl);
        assert_eq!(kubectl.does("delete vpc one"), "vpc.sampan.example.com \"one\" deleted\n");
        assert_eq!(
            kubectl.does_with("delete -f -", CONFIG_MAP),
            "configmap \"settings\" deleted\n"
        );
        assert_eq!(kubectl.does("delete cm -l app=db"), "configmap \"b-settings\" deleted\n");
        assert_eq!(kubectl.does("delete vpcs --all"), "vpc.sampan.example.com \"b-one\" deleted\n");
        assert_eq!(kubectl.does("get vpcs,cm -o name"), "");
    });
}

#[test]
fn deleting_a_missing_object_fails() {
    each(|kubectl| {
        prepare(kubectl);
        assert_eq!(
            kubectl.fails("delete vpc nothing"),
            "Error from server (NotFound): vpcs.sampan.example.com \"nothing\" not found"
        );
        assert_eq!(
            kubectl.fails("delete cm nothing"),
            "Error from server (NotFound): configmaps \"nothing\" not found"
        );
        assert_eq!(kubectl.does("delete vpc,cm nothing --ignore-not-found"), "");
    });
}

#[test]
fn a_dry_run_delete_deletes_nothing() {
    each(|kubectl| {
        prepare(kubectl);
        let printed = kubectl.does("delete vpc one --dry-run=server");
        assert_eq!(printed, "vpc.sampan.example.com \"one\" deleted (server dry run)\n");
        assert_eq!(kubectl.does("get vpc one -o name"), "vpc.sampan.example.com/one\n");
    });
}

#[test]
fn a_pod_on_a_node_is_deleted_gracefully_or_by_force() {
    each(|kubectl| {
        kubectl.does_with("create -f -", POD);
        assert_eq!(kubectl.does("delete pod web --wait=false"), "pod \"web\" deleted\n");
        let shown = table(&kubectl.does("get pod web --no-headers"));
        assert_eq!(shown, "web 0/1 Terminating 0 *");
        let grace = "get pod web -o jsonpath={.metadata.deletionGracePeriodSeconds}";
        assert_eq!(kubectl.does(grace), "30");
        let forced = kubectl.outcome("delete pod web --grace-period=0 --force", "");
        assert_eq!(forced.stdout, "pod \"web\" force deleted\n");
        assert!(forced.stderr.contains("Immediate deletion does not wait"), "{forced:?}");
        assert_eq!(kubectl.does("get pods -o name"), "");
    });
}

#[test]
fn an_object_exists_until_its_finalizer_is_removed() {
    let with_finalizer = CONFIG_MAP.replace("labels:", "finalizers: [example.com/hold], labels:");
    each(|kubectl| {
        kubectl.does_with("create -f -", &with_finalizer);
        kubectl.does("delete cm settings --wait=false");
        assert_ne!(kubectl.does("get cm settings -o jsonpath={.metadata.deletionTimestamp}"), "");
        kubectl.does(r#"patch cm settings --type merge -p {"metadata":{"finalizers":null}}"#);
        kubectl.fails("get cm settings");
    });
}

#[test]
fn a_terminating_namespace_refuses_creates_until_it_is_finalized() {
    each(|kubectl| {
        kubectl.does_with("create -f -", NAMESPACE);
        assert_eq!(
            kubectl.does("delete ns staging --wait=false"),
            "namespace \"staging\" deleted\n"
        );
        let shown = table(&kubectl.does("get ns staging --no-headers"));
        assert_eq!(shown, "staging Terminating *");
        assert_eq!(
            kubectl.fails_with("create -n staging -f -", CONFIG_MAP),
            "Error from server (Forbidden): error when creating \"STDIN\": configmaps \"settings\" is forbidden: unable to create new content in namespace staging because it is being terminated"
        );
        let finalized = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"staging"},"spec":{"finalizers":[]}}"#;
        kubectl.does_with("replace --raw /api/v1/namespaces/staging/finalize -f -", finalized);
        kubectl.fails("get ns staging");
    });
}

#[test]
fn deleting_a_crd_deletes_its_objects() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does("delete crd vpcs.sampan.example.com");
        kubectl.fails("get vpcs");
        kubectl.does_with("create -f -", VPC_CRD);
        assert_eq!(kubectl.does("get vpcs -o name"), "");
    });
}
