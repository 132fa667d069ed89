//! `edit`, `label`, `annotate`, `replace`, `scale`, `cordon`, `taint` and `set image`.

use crate::kubectl::manifests::{CONFIG_MAP, NODE, POD, VPC, VPC_CRD};
use crate::kubectl::session::Kubectl;
use crate::kubectl::{each, table};

fn prepare(kubectl: &Kubectl) {
    kubectl.does_with("create -f -", &format!("{VPC_CRD}---{POD}---{CONFIG_MAP}"));
    kubectl.does_with("create -f -", VPC);
}

#[test]
fn an_edited_object_is_stored() {
    each(|kubectl| {
        prepare(kubectl);
        let edited = kubectl.edits("pod web", "s/nginx:1.27/nginx:1.28/");
        assert_eq!((edited.code, edited.stdout.as_str()), (0, "pod/web edited\n"), "{edited:?}");
        assert_eq!(
            kubectl.does("get pod web -o jsonpath={.spec.containers[*].image}"),
            "nginx:1.28"
        );
        let edited = kubectl.edits("vpc one", "s/10.0.0.0/10.9.0.0/");
        assert_eq!(edited.stdout, "vpc.sampan.example.com/one edited\n", "{edited:?}");
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.cidr}"), "10.9.0.0/8");
    });
}

#[test]
fn an_edit_without_changes_or_with_invalid_values_is_not_stored() {
    each(|kubectl| {
        prepare(kubectl);
        let edited = kubectl.edits("vpc one", "");
        assert!(edited.stderr.contains("Edit cancelled, no changes made."), "{edited:?}");
        let edited = kubectl.edits("vpc one", "s/replicas: 1$/replicas: 100/");
        assert_eq!(edited.code, 1, "{edited:?}");
        assert!(edited.stderr.contains("vpcs.sampan.example.com \"one\" is invalid"), "{edited:?}");
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.replicas}"), "1");
    });
}

#[test]
fn labels_are_set_kept_overwritten_and_removed() {
    each(|kubectl| {
        prepare(kubectl);
        for what in ["vpc one", "cm settings"] {
            let value = || kubectl.does(&format!("get {what} -o jsonpath={{.metadata.labels.a}}"));
            assert!(kubectl.does(&format!("label {what} a=b")).ends_with(" labeled\n"));
            assert_eq!(
                kubectl.fails(&format!("label {what} a=c")),
                "error: 'a' already has a value (b), and --overwrite is false"
            );
            assert_eq!(value(), "b");
            kubectl.does(&format!("label {what} a=c --overwrite"));
            assert_eq!(value(), "c");
            kubectl.does(&format!("label {what} a-"));
            assert_eq!(value(), "");
        }
        kubectl.does("label vpc --all zone=east");
        assert_eq!(kubectl.does("get vpc -l zone=east -o name"), "vpc.sampan.example.com/one\n");
        let error = kubectl.fails("label vpc one a=not/valid");
        assert!(error.contains("a valid label must be"), "{error}");
    });
}

#[test]
fn annotations_are_set_kept_overwritten_and_removed() {
    each(|kubectl| {
        prepare(kubectl);
        for what in ["vpc one", "cm settings"] {
            let value =
                || kubectl.does(&format!("get {what} -o jsonpath={{.metadata.annotations.note}}"));
            // Some versions print "annotate" for "annotated", so the value is checked.
            kubectl.does(&format!("annotate {what} 'note=by hand'"));
            assert_eq!(value(), "by hand");
            let error = kubectl.fails(&format!("annotate {what} note=other"));
            assert!(error.contains("already has a value (by hand)"), "{error}");
            kubectl.does(&format!("annotate {what} note=other --overwrite"));
            assert_eq!(value(), "other");
            kubectl.does(&format!("annotate {what} note-"));
            assert_eq!(value(), "");
        }
    });
}

#[test]
fn replace_overwrites_the_whole_object() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does("label cm settings extra=yes");
        let printed = kubectl.does_with("replace -f -", &CONFIG_MAP.replace("red", "blue"));
        assert_eq!(printed, "configmap/settings replaced\n");
        let path = "get cm settings -o jsonpath={.data.color},{.metadata.labels.extra}";
        assert_eq!(kubectl.does(path), "blue,");
        kubectl.does_with("replace -f -", &VPC.replace("10.0.0.0", "10.2.0.0"));
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.cidr}"), "10.2.0.0/8");
        let error = kubectl.fails_with("replace -f -", &CONFIG_MAP.replace("settings", "new"));
        assert_eq!(
            error,
            "Error from server (NotFound): error when replacing \"STDIN\": configmaps \"new\" not found"
        );
    });
}

#[test]
fn replace_with_an_old_resource_version_conflicts() {
    each(|kubectl| {
        prepare(kubectl);
        let stale = kubectl.does("get vpc one -o json");
        kubectl.does("label vpc one newer=yes");
        let error = kubectl.fails_with("replace -f -", &stale);
        assert!(error.starts_with("Error from server (Conflict)"), "{error}");
        assert!(
            error.contains(
                "the object has been modified; please apply your changes to the latest version"
            ),
            "{error}"
        );
    });
}

#[test]
fn a_forced_replace_creates_a_new_object() {
    each(|kubectl| {
        prepare(kubectl);
        for (manifest, what, printed) in [
            (
                CONFIG_MAP,
                "cm settings",
                "configmap \"settings\" deleted\nconfigmap/settings replaced\n",
            ),
            (
                VPC,
                "vpc one",
                "vpc.sampan.example.com \"one\" deleted\nvpc.sampan.example.com/one replaced\n",
            ),
        ] {
            let uid = || kubectl.does(&format!("get {what} -o jsonpath={{.metadata.uid}}"));
            let before = uid();
            assert_eq!(kubectl.does_with("replace --force -f -", manifest), printed);
            assert_ne!(uid(), before);
        }
    });
}

#[test]
fn a_custom_resource_is_scaled() {
    each(|kubectl| {
        prepare(kubectl);
        let printed = kubectl.does("scale vpc/one --replicas=3");
        assert_eq!(printed, "vpc.sampan.example.com/one scaled\n");
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.replicas}"), "3");
        assert_eq!(
            kubectl.fails("scale vpc one --replicas=4 --current-replicas=2"),
            "error: Expected replicas to be 2, was 3"
        );
        kubectl.does("scale vpc one --replicas=4 --current-replicas=3");
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.replicas}"), "4");
        kubectl.fails("scale cm settings --replicas=2");
    });
}

#[test]
fn nodes_are_cordoned_and_tainted_and_images_are_set() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does_with("create -f -", NODE);
        assert_eq!(kubectl.does("cordon worker"), "node/worker cordoned\n");
        let shown = table(&kubectl.does("get node worker --no-headers"));
        assert_eq!(shown, "worker Unknown,SchedulingDisabled worker *");
        assert_eq!(kubectl.does("uncordon worker"), "node/worker uncordoned\n");
        assert_eq!(kubectl.does("taint nodes worker a=b:NoExecute"), "node/worker tainted\n");
        let taints = "get node worker -o jsonpath={.spec.taints[*].key}";
        assert!(kubectl.does(taints).split(' ').any(|it| it == "a"));
        assert_eq!(kubectl.does("taint nodes worker a-"), "node/worker untainted\n");
        assert_eq!(kubectl.does("set image pod/web web=nginx:1.30"), "pod/web image updated\n");
        assert_eq!(
            kubectl.does("get pod web -o jsonpath={.spec.containers[*].image}"),
            "nginx:1.30"
        );
    });
}
