//! The deletion of namespaces with their contents.

use std::time::Duration;

use serde_json::{Value, json};

use crate::garbage_collection::boat_crd;
use crate::plane::Plane;

const NAMESPACE: &str = "/api/v1/namespaces/doomed";
const MAPS: &str = "/api/v1/namespaces/doomed/configmaps";
const SECRETS: &str = "/api/v1/namespaces/doomed/secrets";
const PODS: &str = "/api/v1/namespaces/doomed/pods";
const BOATS: &str = "/apis/example.com/v1/namespaces/doomed/boats";
const FINALIZER: &str = "example.com/hold";

async fn start() -> Plane {
    let plane = Plane::start(&["namespace-controller"]).await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "doomed"}})).await;
    plane
}

async fn create(plane: &Plane, collection: &str, name: &str, finalizers: &[&str]) {
    let spec = json!({"containers": [{"name": "a", "image": "a"}]});
    let mut object = json!({"metadata": {"name": name, "finalizers": finalizers}});
    match collection {
        PODS => object["spec"] = spec,
        BOATS => {
            (object["apiVersion"], object["kind"]) = (json!("example.com/v1"), json!("Boat"));
        }
        _ => {}
    }
    plane.create(collection, &object).await;
}

async fn delete_namespace(plane: &Plane) {
    let (code, namespace) = plane.delete(NAMESPACE).await;
    assert_eq!((code, &namespace["status"]["phase"]), (200, &json!("Terminating")));
}

async fn until_gone(plane: &Plane) {
    plane.until(NAMESPACE, |code, _| code == 404).await;
}

async fn count(plane: &Plane, collection: &str) -> usize {
    plane.read(collection).await["items"].as_array().unwrap().len()
}

/// Type, status, reason and message of each condition.
fn conditions(namespace: &Value) -> Vec<[&str; 4]> {
    let text = |condition: &'_ Value, field: &str| -> &'static str {
        condition[field].as_str().unwrap().to_owned().leak()
    };
    let conditions = namespace["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|it| ["type", "status", "reason", "message"].map(|field| text(it, field)))
        .collect()
}

const DISCOVERED: [&str; 4] = [
    "NamespaceDeletionDiscoveryFailure",
    "False",
    "ResourcesDiscovered",
    "All resources successfully discovered",
];
const PARSED: [&str; 4] = [
    "NamespaceDeletionGroupVersionParsingFailure",
    "False",
    "ParsedGroupVersions",
    "All legacy kube types successfully parsed",
];
const DELETED: [&str; 4] = [
    "NamespaceDeletionContentFailure",
    "False",
    "ContentDeleted",
    "All content successfully deleted, may be waiting on finalization",
];
const REMOVED: [&str; 4] =
    ["NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed"];
const NO_FINALIZERS: [&str; 4] = [
    "NamespaceFinalizersRemaining",
    "False",
    "ContentHasNoFinalizers",
    "All content-preserving finalizers finished",
];

async fn until_conditions(plane: &Plane, expected: &[[&str; 4]]) {
    let is_expected = |_: u16, namespace: &Value| conditions(namespace) == expected;
    plane.until(NAMESPACE, is_expected).await;
}

#[tokio::test]
async fn a_namespace_is_deleted_with_its_contents() {
    let plane = start().await;
    plane.install_crd(&boat_crd()).await;
    for collection in [MAPS, SECRETS, PODS, BOATS] {
        for name in ["a", "b"] {
            create(&plane, collection, name, &[]).await;
        }
    }
    delete_namespace(&plane).await;
    until_gone(&plane).await;
    for collection in [MAPS, SECRETS, PODS, BOATS] {
        assert_eq!(count(&plane, collection).await, 0, "{collection}");
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_finalizer_that_nobody_clears_is_named_in_the_conditions() {
    let plane = start().await;
    plane.install_crd(&boat_crd()).await;
    create(&plane, MAPS, "held", &[FINALIZER]).await;
    create(&plane, MAPS, "free", &[]).await;
    create(&plane, BOATS, "held", &[FINALIZER, "example.com/other"]).await;
    create(&plane, SECRETS, "free", &[]).await;
    delete_namespace(&plane).await;
    let remaining = [
        "NamespaceContentRemaining",
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: boats.example.com has 1 resource instances, configmaps. has 1 resource instances",
    ];
    let finalizers = [
        "NamespaceFinalizersRemaining",
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances, example.com/other in 1 resource instances",
    ];
    until_conditions(&plane, &[DISCOVERED, PARSED, DELETED, remaining, finalizers]).await;
    assert_eq!(count(&plane, SECRETS).await, 0);
    assert_eq!(count(&plane, MAPS).await, 1);

    let clear = json!({"metadata": {"finalizers": null}});
    plane.merge(&format!("{BOATS}/held"), &clear).await;
    plane.advance(Duration::from_secs(8));
    let remaining = [
        "NamespaceContentRemaining",
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    ];
    let finalizers = [
        "NamespaceFinalizersRemaining",
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    ];
    until_conditions(&plane, &[DISCOVERED, PARSED, DELETED, remaining, finalizers]).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_namespace_is_gone_at_once_when_the_last_finalizer_is_cleared() {
    let plane = start().await;
    create(&plane, MAPS, "held", &[FINALIZER]).await;
    create(&plane, SECRETS, "held", &[FINALIZER]).await;
    delete_namespace(&plane).await;
    plane.until(NAMESPACE, |_, namespace| conditions(namespace).len() == 5).await;
    let clear = json!({"metadata": {"finalizers": null}});
    plane.merge(&format!("{MAPS}/held"), &clear).await;
    plane.merge(&format!("{SECRETS}/held"), &clear).await;
    until_gone(&plane).await; // The clock has not moved.
    plane.stop().await;
}

#[tokio::test]
async fn pods_are_deleted_before_all_other_objects() {
    let plane = start().await;
    create(&plane, PODS, "held", &[FINALIZER]).await;
    create(&plane, MAPS, "later", &[]).await;
    delete_namespace(&plane).await;
    // Upstream: what remains is not counted while pods remain.
    until_conditions(&plane, &[DISCOVERED, PARSED, DELETED, REMOVED, NO_FINALIZERS]).await;
    assert_eq!(count(&plane, MAPS).await, 1);
    plane.merge(&format!("{PODS}/held"), &json!({"metadata": {"finalizers": null}})).await;
    until_gone(&plane).await;
    assert_eq!(count(&plane, MAPS).await, 0);
    plane.stop().await;
}

#[tokio::test]
async fn kinds_that_cannot_be_deleted_do_not_protect_the_others() {
    let plane = start().await;
    create(&plane, MAPS, "kept", &[]).await;
    create(&plane, SECRETS, "kept", &[]).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/doomed/leases";
    create(&plane, leases, "free", &[]).await;
    let policies = "/apis/admissionregistration.k8s.io/v1";
    plane
        .create(
            &format!("{policies}/validatingadmissionpolicies"),
            &json!({
                "metadata": {"name": "keep"},
                "spec": {
                    "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                        "operations": ["DELETE"], "resources": ["configmaps", "secrets"]}]},
                    "validations": [{"expression": "false", "message": "keep it"}],
                },
            }),
        )
        .await;
    plane
        .create(
            &format!("{policies}/validatingadmissionpolicybindings"),
            &json!({"metadata": {"name": "keep"},
                "spec": {"policyName": "keep", "validationActions": ["Deny"]}}),
        )
        .await;
    let probe = format!("{MAPS}/kept?dryRun=All");
    loop {
        // The policy is enforced shortly after it was stored.
        let (code, _) = plane.delete(&probe).await;
        if code == 422 {
            break;
        }
        tokio::task::yield_now().await;
    }
    delete_namespace(&plane).await;
    // Upstream: the admission of a collection has no name.
    let denied = |kind: &str| {
        format!(
            "{kind} \"Unknown\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: keep it"
        )
    };
    let message = format!(
        "Failed to delete all resource types, 2 remaining: {}, {}",
        denied("configmaps"),
        denied("secrets")
    );
    let failed =
        ["NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", message.as_str()];
    until_conditions(&plane, &[DISCOVERED, PARSED, failed, REMOVED, NO_FINALIZERS]).await;
    assert_eq!(count(&plane, leases).await, 0);
    let binding = format!("{policies}/validatingadmissionpolicybindings/keep");
    assert_eq!(plane.delete(&binding).await.0, 200);
    plane
        .until(NAMESPACE, |code, _| {
            plane.advance(Duration::from_secs(1)); // The attempts are repeated with a backoff.
            code == 404
        })
        .await;
    plane.stop().await;
}

#[tokio::test]
async fn a_group_that_is_not_available_keeps_the_namespace_but_not_its_contents() {
    let plane = start().await;
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let service = json!({
        "metadata": {"name": "v1.absent.example.com"},
        "spec": {"group": "absent.example.com", "version": "v1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "absent", "namespace": "default"}},
    });
    plane.create(services, &service).await;
    let path = format!("{services}/v1.absent.example.com");
    plane.until(&path, |_, it| it["status"]["conditions"][0]["status"] == "False").await;
    create(&plane, MAPS, "a", &[]).await;
    delete_namespace(&plane).await;
    let message = "Discovery failed for some groups, 1 failing: unable to retrieve the complete \
        list of server APIs: absent.example.com/v1: stale GroupVersion discovery: \
        absent.example.com/v1";
    let failed = ["NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed", message];
    until_conditions(&plane, &[failed, PARSED, DELETED, REMOVED, NO_FINALIZERS]).await;
    assert_eq!(count(&plane, MAPS).await, 0);
    assert_eq!(plane.delete(&path).await.0, 200);
    plane
        .until(NAMESPACE, |code, _| {
            plane.advance(Duration::from_secs(1));
            code == 404
        })
        .await;
    plane.stop().await;
}
