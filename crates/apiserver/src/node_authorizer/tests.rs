//! Tests of the references of pods and volumes, and of their index.

use super::pod_references::PodReferences;
use super::relations::{ObjectKey, Referenced, Relations};
use super::volume_references::VolumeReferences;
use machinery::{Value, json};

fn pod_keys(pod: Value) -> Vec<ObjectKey> {
    let references: PodReferences = serde_json::from_value(pod).unwrap();
    references.keys("ns", "web")
}

/// The keys of `expected`, each a letter for the kind, and a name or a namespace and a name.
fn keys(expected: &[&str]) -> Vec<ObjectKey> {
    let mut keys: Vec<ObjectKey> = expected.iter().map(|it| key(it)).collect();
    keys.sort_unstable();
    keys
}

fn key(text: &str) -> ObjectKey {
    let kind = match &text[..1] {
        "s" => Referenced::Secret,
        "c" => Referenced::ConfigMap,
        "a" => Referenced::ServiceAccount,
        "v" => Referenced::VolumeClaim,
        _ => Referenced::ResourceClaim,
    };
    let (namespace, name) = text[2..].split_once('/').unwrap_or(("ns", &text[2..]));
    ObjectKey::new(kind, namespace, name)
}

#[test]
fn a_pod_refers_to_the_sources_of_its_variables() {
    let container = |name: &str| {
        json!([{"name": "c", "env": [
            {"name": "PLAIN", "value": "x"},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": format!("{name}-secret"), "key": "k"}}},
            {"name": "C", "valueFrom": {"configMapKeyRef": {"name": format!("{name}-map"), "key": "k"}}},
        ], "envFrom": [
            {"secretRef": {"name": "all"}}, {"configMapRef": {"name": "all"}}, {"secretRef": {}},
        ]}])
    };
    let pod = json!({"spec": {
        "nodeName": "a", "serviceAccountName": "robot", "imagePullSecrets": [{"name": "pull"}, {}],
        "initContainers": container("init"), "containers": container("main"),
        "ephemeralContainers": container("debug"), "volumes": null,
    }});
    let expected = [
        "a robot",
        "s pull",
        "s init-secret",
        "c init-map",
        "s main-secret",
        "c main-map",
        "s debug-secret",
        "c debug-map",
        "s all",
        "c all",
    ];
    assert_eq!(pod_keys(pod), keys(&expected));
}

#[test]
fn a_pod_refers_to_the_secrets_and_claims_of_its_volumes() {
    let by_reference = |name: &str| json!({"secretRef": {"name": name}});
    let pod = json!({"spec": {"volumes": [
        {"name": "1", "azureFile": {"secretName": "azure", "shareName": "x"}},
        {"name": "2", "cephfs": by_reference("cephfs")},
        {"name": "3", "cinder": by_reference("cinder")},
        {"name": "4", "flexVolume": by_reference("flex")},
        {"name": "5", "rbd": by_reference("rbd")},
        {"name": "6", "secret": {"secretName": "mounted"}},
        {"name": "7", "scaleIO": by_reference("scale")},
        {"name": "8", "iscsi": by_reference("iscsi")},
        {"name": "9", "storageos": by_reference("storageos")},
        {"name": "10", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "csi"}}},
        {"name": "11", "configMap": {"name": "mounted"}},
        {"name": "12", "projected": {"sources": [
            {"secret": {"name": "projected"}}, {"configMap": {"name": "projected"}},
            {"serviceAccountToken": {"path": "t"}},
        ]}},
        {"name": "13", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "15", "emptyDir": {}},
    ]}});
    let expected = [
        "s azure",
        "s cephfs",
        "s cinder",
        "s flex",
        "s rbd",
        "s mounted",
        "s scale",
        "s iscsi",
        "s storageos",
        "s csi",
        "c mounted",
        "s projected",
        "c projected",
        "v data",
        "v web-scratch",
    ];
    assert_eq!(pod_keys(pod), keys(&expected));
}

#[test]
fn a_pod_refers_to_its_claims_for_devices_once_they_exist() {
    let pod = json!({
        "spec": {"resourceClaims": [
            {"name": "direct", "resourceClaimName": "claim"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "pending", "resourceClaimTemplateName": "t"},
            {"name": "unneeded", "resourceClaimTemplateName": "t"},
        ]},
        "status": {
            "resourceClaimStatuses": [
                {"name": "made", "resourceClaimName": "web-made"},
                {"name": "unneeded", "resourceClaimName": null},
                {"name": "direct", "resourceClaimName": "other"},
            ],
            "extendedResourceClaimStatus": {"resourceClaimName": "web-extended"},
        },
    });
    assert_eq!(pod_keys(pod), keys(&["r claim", "r web-made", "r web-extended"]));
}

#[test]
fn a_mirror_pod_refers_to_nothing() {
    let pod = json!({
        "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"serviceAccountName": "robot", "imagePullSecrets": [{"name": "pull"}]},
    });
    assert_eq!(pod_keys(pod), []);
}

#[test]
fn a_volume_refers_to_the_secrets_of_nodes_and_not_to_those_of_controllers() {
    let secrets = |source: Value| {
        let mut spec = source;
        spec["claimRef"] = json!({"namespace": "ns", "name": "data"});
        let volume: VolumeReferences = serde_json::from_value(json!({"spec": spec})).unwrap();
        assert_eq!(volume.claim(), Some(key("v data")));
        volume.secrets()
    };
    let csi = json!({"csi": {
        "nodePublishSecretRef": {"namespace": "x", "name": "publish"},
        "nodeStageSecretRef": {"namespace": "x", "name": "stage"},
        "nodeExpandSecretRef": {"namespace": "x", "name": "expand"},
        "controllerPublishSecretRef": {"namespace": "x", "name": "controller"},
        "controllerExpandSecretRef": {"namespace": "x", "name": "controller"},
    }});
    assert_eq!(secrets(csi), keys(&["s x/publish", "s x/stage", "s x/expand"]));
    for kind in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        assert_eq!(secrets(json!({kind: {"secretRef": {"name": "a"}}})), [key("s a")], "{kind}");
        let other = json!({kind: {"secretRef": {"namespace": "x", "name": "a"}}});
        assert_eq!(secrets(other), [key("s x/a")], "{kind}");
    }
    for kind in ["cinder", "storageos"] {
        assert_eq!(secrets(json!({kind: {"secretRef": {"name": "a"}}})), [key("s /a")], "{kind}");
    }
    assert_eq!(secrets(json!({"azureFile": {"secretName": "a"}})), [key("s a")]);
    let elsewhere = json!({"azureFile": {"secretName": "a", "secretNamespace": "x"}});
    assert_eq!(secrets(elsewhere), [key("s x/a")]);
}

#[test]
fn a_node_is_related_to_an_object_until_its_last_pod_is_removed() {
    let mut relations = Relations::default();
    relations.add_pod("a", keys(&["s one", "c one"]));
    relations.add_pod("a", keys(&["s one"]));
    relations.add_pod("b", keys(&["s two"]));
    assert!(relations.refers("a", &key("s one")) && relations.refers("b", &key("s two")));
    assert!(!relations.refers("b", &key("s one")) && !relations.refers("c", &key("s one")));
    assert!(!relations.refers("a", &key("c two")), "another kind");
    relations.remove_pod("a", keys(&["s one", "c one"]));
    assert!(relations.refers("a", &key("s one")) && !relations.refers("a", &key("c one")));
    relations.remove_pod("a", keys(&["s one"]));
    assert!(!relations.refers("a", &key("s one")));
    // The number of the removed node is used again.
    relations.add_pod("c", keys(&["s three"]));
    assert!(relations.refers("c", &key("s three")) && !relations.refers("a", &key("s three")));
    assert!(relations.refers("b", &key("s two")) && !relations.refers("b", &key("s three")));
    relations.remove_pod("c", keys(&["s three"]));
    relations.remove_pod("b", keys(&["s two"]));
    assert!(relations.is_empty());
}

#[test]
fn a_secret_of_a_volume_is_related_to_the_nodes_of_its_claim() {
    let mut relations = Relations::default();
    relations.add_volume(&key("v data"), keys(&["s x/disk"]));
    relations.add_volume(&key("v other"), keys(&["s x/disk"]));
    assert!(!relations.refers("a", &key("s x/disk")));
    relations.add_pod("a", keys(&["v data"]));
    assert!(relations.refers("a", &key("s x/disk")) && !relations.refers("b", &key("s x/disk")));
    relations.remove_volume(&key("v data"), keys(&["s x/disk"]));
    assert!(!relations.refers("a", &key("s x/disk")));
    relations.remove_volume(&key("v other"), keys(&["s x/disk"]));
    relations.remove_pod("a", keys(&["v data"]));
    assert!(relations.is_empty());
}

#[test]
fn a_pod_with_a_secret_of_its_own_needs_less_than_200_bytes() {
    let mut relations = Relations::default();
    let pods = 10_000;
    for number in 0..pods {
        let secret = format!("s some-namespace/secret-of-{number}");
        let shared = ["a some-namespace/default", "c some-namespace/kube-root-ca.crt"];
        let references = keys(&[&secret, shared[0], shared[1]]);
        relations.add_pod(&format!("node-{}", number % 100), references);
    }
    let bytes = relations.heap_size() / pods;
    assert!(bytes < 200, "{bytes} bytes");
}
