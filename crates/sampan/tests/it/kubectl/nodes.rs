//! Nodes: `get nodes`, `cordon`, `drain`, disruption budgets.

use crate::kubectl::{each_alive, each_since_alive, table};

#[test]
fn a_node_is_drained_and_its_pods_move_to_another() {
    each_alive(2, |kubectl| {
        let nodes = table(&kubectl.does("get nodes"));
        let ready = nodes.lines().filter(|it| it.contains(" Ready ")).count();
        assert_eq!(ready, 2, "{nodes}");
        kubectl.does("create deployment web --image=nginx --replicas=4");
        kubectl.does("rollout status deployment/web --timeout=60s");
        let drained = kubectl.does("drain sampan-0 --ignore-daemonsets --timeout=60s");
        // Older releases print "evicted".
        let is_done = ["drained", "evicted"]
            .iter()
            .any(|it| drained.contains(&format!("node/sampan-0 {it}")));
        assert!(is_done, "{drained}");
        let nodes = table(&kubectl.does("get nodes"));
        assert!(nodes.contains("sampan-0 Ready,SchedulingDisabled"), "{nodes}");
        kubectl.does("rollout status deployment/web --timeout=60s");
        let placed = kubectl.does("get pods -o jsonpath={.items[*].spec.nodeName}");
        assert_eq!(placed, "sampan-1 sampan-1 sampan-1 sampan-1");
        assert_eq!(kubectl.does("uncordon sampan-0"), "node/sampan-0 uncordoned\n");
    });
}

const STATEFUL_SET: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 3
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
";

#[test]
fn pods_of_a_stateful_set_are_deleted_and_drained_one_after_the_other() {
    each_since_alive(22, 2, |kubectl| {
        kubectl.does_with("create -f -", STATEFUL_SET);
        let is_ready = "rollout status statefulset/web --timeout=60s";
        kubectl.does(is_ready);
        for _ in 0..3 {
            // The next pod has the same name. kubectl waits until the first one is gone, and would
            // wait for ever if both happened at once.
            kubectl.does("delete pod web-1 --timeout=20s");
            kubectl.does(is_ready);
        }
        for node in ["sampan-0", "sampan-1"] {
            kubectl.does(&format!("drain {node} --ignore-daemonsets --timeout=60s"));
            kubectl.does(is_ready);
            kubectl.does(&format!("uncordon {node}"));
        }
    });
}

#[test]
fn a_disruption_budget_delays_a_drain() {
    // Older releases use policy/v1beta1.
    each_since_alive(22, 1, |kubectl| {
        kubectl.does("create deployment web --image=nginx --replicas=2");
        kubectl.does("rollout status deployment/web --timeout=60s");
        kubectl.does("create poddisruptionbudget web --selector=app=web --min-available=2");
        let allowed =
            "get pdb web -o jsonpath={.status.currentHealthy}/{.status.disruptionsAllowed}";
        kubectl.until(|| kubectl.does(allowed) == "2/0");
        let refused = kubectl.outcome("drain sampan-0 --ignore-daemonsets --timeout=3s", "");
        assert_ne!(refused.code, 0);
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        assert!(refused.stderr.contains(message), "{refused:?}");
        assert_eq!(kubectl.does("get pods -o name").lines().count(), 2);
    });
}
