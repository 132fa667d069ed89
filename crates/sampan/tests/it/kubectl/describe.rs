//! `describe` of built-in kinds and of a custom resource.

use crate::kubectl::manifests::{CONFIG_MAP, NODE, POD, SERVICE, VPC, VPC_CRD};
use crate::kubectl::{assert_lines, each};

#[test]
fn a_pod_is_described_with_its_defaults() {
    each(|kubectl| {
        kubectl.does_with("create -f -", POD);
        assert_lines(
            &kubectl.does("describe pod web"),
            &[
                "Name: web",
                "Namespace: default",
                "Node: worker/",
                "Labels: app=web",
                "Status: Pending",
                "Image: nginx:1.27",
                "Port: 80/TCP",
                "cpu: 500m",
                "memory: 64Mi",
                "QoS Class: Guaranteed",
                "Tolerations: node.kubernetes.io/not-ready:NoExecute op=Exists for 300s",
                "Events: <none>",
            ],
        );
    });
}

#[test]
fn a_node_is_described_with_its_pods() {
    each(|kubectl| {
        kubectl.does_with("create -f -", &format!("{NODE}---{POD}"));
        assert_lines(
            &kubectl.does("describe node worker"),
            &[
                "Name: worker",
                "Roles: worker",
                "Taints: node.kubernetes.io/not-ready:NoSchedule",
                "Unschedulable: false",
                "PodCIDR: 10.244.0.0/24",
                "PodCIDRs: 10.244.0.0/24",
                "Non-terminated Pods: (1 in total)",
                "cpu 500m (0%) 500m (0%)",
            ],
        );
    });
}

#[test]
fn a_namespace_a_config_map_and_a_service_are_described() {
    each(|kubectl| {
        kubectl.does_with("create -f -", &format!("{CONFIG_MAP}---{SERVICE}"));
        assert_lines(
            &kubectl.does("describe namespace default"),
            &["Name: default", "Labels: kubernetes.io/metadata.name=default", "Status: Active"],
        );
        assert_lines(
            &kubectl.does("describe configmap settings"),
            &["Name: settings", "Labels: app=web", "color:", "red", "Events: <none>"],
        );
        assert_lines(
            &kubectl.does("describe service web"),
            &["Selector: app=web", "Type: ClusterIP", "IP: 10.0.0.80", "TargetPort: 80/TCP"],
        );
    });
}

#[test]
fn a_custom_resource_is_described_field_by_field() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        kubectl.does_with("create -f -", VPC);
        assert_lines(
            &kubectl.does("describe vpc one"),
            &["API Version: sampan.example.com/v1", "Kind: Vpc", "Cidr: 10.0.0.0/8", "Replicas: 1"],
        );
        assert_lines(
            &kubectl.does("describe crd vpcs.sampan.example.com"),
            &[
                "Kind: CustomResourceDefinition",
                "List Kind: VpcList",
                "Singular: vpc",
                "Reason: InitialNamesAccepted",
                "Type: Established",
            ],
        );
    });
}

#[test]
fn an_event_is_described_with_its_object() {
    each(|kubectl| {
        kubectl.does_with("create -f -", POD);
        let uid = kubectl.does("get pod web -o jsonpath={.metadata.uid}");
        let event = format!(
            "
apiVersion: v1
kind: Event
metadata: {{name: web.1, namespace: default}}
involvedObject: {{apiVersion: v1, kind: Pod, namespace: default, name: web, uid: {uid}}}
type: Normal
reason: Scheduled
message: chosen by hand
source: {{component: a-person}}
count: 1
"
        );
        kubectl.does_with("create -f -", &event);
        let described = kubectl.does("describe pod web");
        assert!(described.contains("Scheduled"), "{described}");
        assert!(described.contains("chosen by hand"), "{described}");
        let listed = kubectl.does("get events --field-selector involvedObject.name=web");
        assert!(listed.contains("pod/web"), "{listed}");
    });
}
