//! `ConfigMap`s that change, are broken or are missing.

use serde_json::json;

use crate::in_each_mode;
use crate::requests::{CONFIG_MAPS, EVENTS, PODS, Refusal, annotated, names, plain};
use crate::world::{CONFIG, World, decode};
use sidecar_operator::Mode;

const POLICY: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/envoy-sidecar";

in_each_mode! {
    a_changed_configuration_is_used_for_new_pods
    a_broken_configuration_makes_an_event_and_blocks_no_other_pod
    a_missing_config_map_makes_an_event_and_blocks_no_other_pod
    a_sidecar_with_rights_of_its_own_is_refused_unless_an_option_allows_it
}

async fn a_changed_configuration_is_used_for_new_pods(mode: Mode) {
    let world = World::start(mode).await;
    world.configure("containers: [{name: proxy, image: \"it's {a: \\\"proxy\\\"}\"}]").await;
    let created = world.admin.create(PODS, &annotated("web")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "proxy"]);
    assert_eq!(created["spec"]["containers"][1]["image"], "it's {a: \"proxy\"}");
    assert_eq!(names(&created, "volumes"), [""; 0]);
    world.stop().await;
}

/// Waits for an Event about the `ConfigMap`.
async fn event(world: &World, reason: &str, text: &str) {
    let path = format!("{EVENTS}?fieldSelector=reason={reason},involvedObject.kind=ConfigMap");
    let contains = |event: &serde_json::Value| event["message"].as_str().unwrap().contains(text);
    world.admin.until(&path, |list| list["items"].as_array().unwrap().iter().any(contains)).await;
}

/// Checks that a pod with the annotation is refused with `why`, or, with a policy, gets the sidecar of
/// the last valid configuration.
async fn check_annotated(world: &World, why: &str) {
    match (world.options.mode, world.admin.create(PODS, &annotated("annotated")).await) {
        (Mode::Policy, Ok(created)) => {
            assert_eq!(names(&created, "containers"), ["web", "envoy"]);
            world.admin.delete(&format!("{PODS}/annotated")).await;
        }
        (Mode::Webhook | Mode::Initializer, Err(Refusal { code, message })) => {
            assert_eq!(code, 403);
            assert!(message.contains("the pod cannot get its sidecar"), "{message}");
            assert!(message.contains(why), "{message}");
        }
        (_, other) => panic!("{other:?}"),
    }
}

async fn a_broken_configuration_makes_an_event_and_blocks_no_other_pod(mode: Mode) {
    let world = World::start(mode).await;
    world.configure("containers:\n  - name: envoy\n   image: x\n").await;
    let why = "the key \"config\" of the ConfigMap default/envoy-initializer is not valid: \
        it is not YAML: yaml: line 2";
    event(&world, "InvalidConfig", why).await;
    let created = world.admin.create(PODS, &plain("plain")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web"]);
    check_annotated(&world, why).await;

    world.configure(decode(CONFIG)["data"]["config"].as_str().unwrap()).await;
    event(&world, "ConfigAccepted", "get the containers: envoy").await;
    let created = world.admin.create(PODS, &annotated("annotated")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    world.stop().await;
}

async fn a_missing_config_map_makes_an_event_and_blocks_no_other_pod(mode: Mode) {
    let world = World::start(mode).await;
    world.admin.delete(&format!("{CONFIG_MAPS}/envoy-initializer")).await;
    world.settle().await;
    let why = "there is no ConfigMap default/envoy-initializer";
    event(&world, "ConfigMissing", why).await;
    world.admin.create(PODS, &plain("plain")).await.unwrap();
    if mode == Mode::Policy {
        assert_eq!(world.admin.get(POLICY).await.unwrap_err().code, 404);
        let created = world.admin.create(PODS, &annotated("annotated")).await.unwrap();
        assert_eq!(names(&created, "containers"), ["web"]);
    } else {
        check_annotated(&world, why).await;
    }
    world.stop().await;
}

async fn a_sidecar_with_rights_of_its_own_is_refused_unless_an_option_allows_it(mode: Mode) {
    let mut world = World::start(mode).await;
    let secrets = "containers: [{name: proxy, image: x, envFrom: [{secretRef: {name: db}}]}]";
    world.configure(secrets).await;
    let why = "the ConfigMap default/envoy-initializer has containers[0].envFrom.secretRef: the \
        values of a Secret, which needs the option --allow-privileges";
    event(&world, "InvalidConfig", why).await;
    check_annotated(&world, why).await;

    world.stop_operator().await;
    world.options.allow_privileges = true;
    world.start_operator().await;
    let created = world.admin.create(PODS, &annotated("allowed")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "proxy"]);
    world.stop().await;
}

#[tokio::test]
async fn a_policy_that_cannot_be_written_makes_a_warning_and_is_not_reported_as_accepted() {
    let world = World::start(Mode::Policy).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sidecar-operator";
    let mut rules = world.admin.get(role).await.unwrap()["rules"].clone();
    rules[0]["verbs"] = json!(["list", "watch"]);
    world.admin.merge(role, &json!({"rules": rules})).await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"group": "admissionregistration.k8s.io", "verb": "patch",
            "resource": "mutatingadmissionpolicies", "name": "envoy-sidecar"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let operator = world.service_account();
    while operator.create(reviews, &review).await.unwrap()["status"]["allowed"] == true {
        tokio::task::yield_now().await;
    }
    let config = json!({"data": {"config": "containers: [{name: unwritten, image: x}]"}});
    world.admin.merge(&format!("{CONFIG_MAPS}/envoy-initializer"), &config).await;
    event(&world, "PolicyFailed", "new pods get the sidecar of the last policy").await;
    let events = world.admin.get(EVENTS).await.unwrap().to_string();
    assert!(!events.contains("containers: unwritten"), "{events}");
    drop(operator);
    world.stop().await;
}

#[tokio::test]
async fn a_pod_that_is_not_valid_with_its_sidecar_is_refused_by_the_initializer() {
    let world = World::start(Mode::Initializer).await;
    let mount = "volumeMounts: [{name: nowhere, mountPath: /x}]";
    world.configure(&format!("containers: [{{name: envoy, image: x, {mount}}}]")).await;
    let refusal = world.admin.create(PODS, &annotated("web")).await.unwrap_err();
    assert!(refusal.message.contains("nowhere"), "{refusal:?}");
    let event = format!("{EVENTS}?fieldSelector=reason=SidecarRefused,involvedObject.name=web");
    world.admin.until(&event, |list| !list["items"].as_array().unwrap().is_empty()).await;
    world.stop().await;
}

#[tokio::test]
async fn a_policy_that_somebody_changes_is_restored() {
    let world = World::start(Mode::Policy).await;
    let patch = json!({"spec": {"failurePolicy": "Ignore", "mutations": [{"patchType": "JSONPatch",
        "jsonPatch": {"expression": "[JSONPatch{op: \"test\", path: \"/a\"}]"}}]}});
    world.admin.merge(POLICY, &patch).await;
    world.settle().await;
    let policy = world.admin.get(POLICY).await.unwrap();
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    world.admin.create(PODS, &annotated("web")).await.unwrap();
    world.admin.delete(POLICY).await;
    world.settle().await;
    let created = world.admin.create(PODS, &annotated("again")).await.unwrap();
    assert_eq!(names(&created, "containers"), ["web", "envoy"]);
    world.stop().await;
}
