//! Deletions: `delete --cascade=…` and `delete ns`.

use crate::kubectl::each_alive;

const READY: &str = "rollout status deployment/web --timeout=60s";

#[test]
fn the_dependents_of_a_deployment_are_deleted_with_it() {
    each_alive(1, |kubectl| {
        for mode in ["background", "foreground"] {
            kubectl.does("create deployment web --image=nginx --replicas=2");
            kubectl.does(READY);
            kubectl.does(&format!("delete deployment web --cascade={mode}"));
            kubectl.until_gone("replicasets --selector=app=web");
            kubectl.until_gone("pods --selector=app=web");
        }
    });
}

#[test]
fn the_dependents_of_a_deployment_can_be_orphaned() {
    each_alive(1, |kubectl| {
        kubectl.does("create deployment web --image=nginx --replicas=2");
        kubectl.does(READY);
        kubectl.does("delete deployment web --cascade=orphan");
        let owners = "get replicasets -o jsonpath={.items[*].metadata.ownerReferences}";
        kubectl.until(|| kubectl.does(owners).is_empty());
        assert_eq!(kubectl.does("get pods -o name").lines().count(), 2);
        // A new Deployment with the same template adopts them.
        let pods = kubectl.does("get pods -o name");
        kubectl.does("create deployment web --image=nginx --replicas=2");
        kubectl.does(READY);
        assert_eq!(kubectl.does("get pods -o name"), pods);
    });
}

#[test]
fn a_namespace_is_deleted_with_its_contents() {
    each_alive(1, |kubectl| {
        kubectl.does("create namespace team");
        kubectl.does("create deployment web --image=nginx --replicas=2 -n team");
        kubectl.does(&format!("{READY} -n team"));
        kubectl.does("create configmap settings --from-literal=a=b -n team");
        assert_eq!(
            kubectl.does("delete namespace team --timeout=60s"),
            "namespace \"team\" deleted\n"
        );
        assert_eq!(kubectl.does("get all -n team"), "");
        kubectl.fails("get namespace team");
    });
}

#[test]
fn a_finalizer_that_nobody_removes_keeps_the_namespace() {
    each_alive(1, |kubectl| {
        kubectl.does("create namespace team");
        kubectl.does("create configmap held --from-literal=a=b -n team");
        let finalizers = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
        kubectl.does(&format!("patch configmap held -n team --type merge -p {finalizers}"));
        kubectl.does("delete namespace team --wait=false");
        kubectl.does("wait --for=condition=NamespaceFinalizersRemaining ns/team --timeout=60s");
        let message = "get namespace team -o \
            jsonpath={.status.conditions[?(@.type==\"NamespaceFinalizersRemaining\")].message}";
        assert_eq!(
            kubectl.does(message),
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        let message = message.replace("NamespaceFinalizersRemaining", "NamespaceContentRemaining");
        assert_eq!(
            kubectl.does(&message),
            "Some resources are remaining: configmaps. has 1 resource instances"
        );
        kubectl.does(
            r#"patch configmap held -n team --type merge -p {"metadata":{"finalizers":null}}"#,
        );
        kubectl.until_gone("namespace team");
    });
}
