//! KWOK's Stage objects.

use std::time::Duration;

use crate::plane::{PODS, Plane, condition};
use machinery::codec::yaml;
use machinery::{Value, json};

const STAGES: &str = "/apis/kwok.x-k8s.io/v1alpha1/stages";
/// The events about pods for which a Stage has failed.
pub(crate) const FAILURES: &str =
    "/api/v1/namespaces/default/events?fieldSelector=reason%3DStageFailed";

pub(crate) async fn install_crd(plane: &Plane) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    plane
        .install_crd(&json!({
            "metadata": {"name": "stages.kwok.x-k8s.io"},
            "spec": {
                "group": "kwok.x-k8s.io", "scope": "Cluster",
                "names": {"plural": "stages", "singular": "stage", "kind": "Stage"},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}],
            },
        }))
        .await;
}

pub(crate) async fn create_stage(plane: &Plane, name: &str, spec: Value) {
    let stage = json!({"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage",
        "metadata": {"name": name}, "spec": spec});
    plane.create(STAGES, &stage).await;
}

#[tokio::test]
async fn a_stage_lets_selected_pods_fail_after_its_delay() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let template = r#"
        {{ $now := Now }}
        {{ $annotations := or .metadata.annotations dict }}
        {{ $reason := or ( index $annotations "fail.stage.kwok.x-k8s.io/reason" ) "containerFailed" }}
        containerStatuses:
        {{ range $index, $item := .spec.containers }}
        - image: {{ $item.image | Quote }}
          name: {{ $item.name | Quote }}
          ready: false
          restartCount: 0
          state:
            terminated:
              exitCode: 1
              reason: {{ $reason }}
              finishedAt: {{ $now | Quote }}
        {{ end }}
        hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
        podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) | Quote }}
        phase: Failed
    "#;
    create_stage(
        &plane,
        "fail",
        json!({
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [
                {"key": ".metadata.labels[\"fail.stage.kwok.x-k8s.io\"]", "operator": "In",
                    "values": ["true"]},
                {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                {"key": ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
                    "operator": "In", "values": ["True"]},
            ]},
            "delay": {"durationMilliseconds": 1000, "durationFrom": {
                "expressionFrom": ".metadata.annotations[\"fail.stage.kwok.x-k8s.io/delay\"]"}},
            "next": {"statusTemplate": template,
                "event": {"type": "Warning", "reason": "Staged", "message": "failed by a stage"}},
        }),
    )
    .await;
    let annotations = json!({"fail.stage.kwok.x-k8s.io/delay": "20s",
        "fail.stage.kwok.x-k8s.io/reason": "OOMKilled"});
    plane.create_pod("good", annotations.clone(), json!({})).await;
    plane.create_pod("bad", annotations, json!({})).await;
    let label = json!({"metadata": {"labels": {"fail.stage.kwok.x-k8s.io": "true"}}});
    plane.merge(&format!("{PODS}/bad"), &label).await;
    let before = plane.until_phase("bad", "Running").await;
    plane.until_phase("good", "Running").await;
    let path = format!("{PODS}/bad");
    let start = plane.clock().now();
    let is_failed = |_: u16, pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = plane.advance_until(Duration::from_secs(1), &path, is_failed).await;
    assert!(plane.clock().now().since(start) >= Duration::from_secs(20));
    let terminated = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(terminated["reason"], "OOMKilled");
    assert_eq!(pod["status"]["podIP"], before["status"]["podIP"]);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DStaged";
    plane.until(events, |_, list| list["items"][0]["message"] == "failed by a stage").await;
    assert_eq!(plane.read(&format!("{PODS}/good")).await["status"]["phase"], "Running");
    plane.stop().await;
}

#[tokio::test]
async fn a_stage_with_the_name_of_a_built_in_one_replaces_it() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let resource = json!({"apiGroup": "v1", "kind": "Pod"});
    create_stage(
        &plane,
        "pod-ready",
        json!({
            "resourceRef": resource,
            "selector": {"matchLabels": {"start": "yes"}, "matchExpressions": [
                {"jq": {"key": ".status.phase", "operator": "In", "values": ["Pending"]}}]},
            "steps": [{"patch": {"root": "status", "subresource": "status",
                "template": "phase: Running\npodIP: {{ PodIP | Quote }}"}}],
        }),
    )
    .await;
    create_stage(
        &plane,
        "pod-delete",
        json!({
            "resourceRef": resource,
            "selector": {"matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "Exists"}]},
            "delay": {"durationMilliseconds": 60_000},
            "next": {"finalizers": {"empty": true}, "delete": true},
        }),
    )
    .await;
    // A pod that the first Stage selects shows that the Stages are known.
    plane.create_pod("probe", json!({}), json!({})).await;
    plane.merge(&format!("{PODS}/probe"), &json!({"metadata": {"labels": {"start": "yes"}}})).await;
    plane.until_phase("probe", "Running").await;
    plane.create_pod("kept", json!({}), json!({})).await;
    plane.create_pod("next", json!({}), json!({})).await;
    plane.merge(&format!("{PODS}/next"), &json!({"metadata": {"labels": {"start": "yes"}}})).await;
    let next = plane.until_phase("next", "Running").await;
    assert_eq!(condition(&next, "Ready"), &Value::Null, "only the stage writes the status");
    assert_eq!(plane.read(&format!("{PODS}/kept")).await["status"]["phase"], "Pending");

    let path = format!("{PODS}/next");
    plane.merge(&path, &json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    plane.delete(&path).await;
    let start = plane.clock().now();
    plane.advance_until(Duration::from_secs(1), &path, |code, _| code == 404).await;
    assert!(plane.clock().now().since(start) >= Duration::from_mins(1));
    plane.stop().await;
}

#[tokio::test]
async fn a_stage_marks_a_node_and_the_node_stays_so() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let template = r#"
        {{ $now := Now }}
        conditions:
        {{ range NodeConditions }}
        {{ if eq .type "Ready" }}
        - lastHeartbeatTime: {{ $now | Quote }}
          lastTransitionTime: {{ $now | Quote }}
          message: "node failed"
          reason: "nodeFailed"
          status: "False"
          type: {{ .type | Quote }}
        {{ end }}
        {{ end }}
    "#;
    create_stage(
        &plane,
        "node-not-ready",
        json!({
            "resourceRef": {"apiGroup": "v1", "kind": "Node"},
            "selector": {"matchLabels": {"fail": "true"}, "matchExpressions": [
                {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                {"key": ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
                    "operator": "NotIn", "values": ["False"]}]},
            "next": {"statusTemplate": template},
        }),
    )
    .await;
    let path = "/api/v1/nodes/sampan-0";
    plane.until(path, |code, _| code == 200).await;
    plane.merge(path, &json!({"metadata": {"labels": {"fail": "true"}}})).await;
    let is_failed = |_: u16, node: &Value| condition(node, "Ready")["reason"] == "nodeFailed";
    plane.until(path, is_failed).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/sampan-0";
    plane.advance(Duration::from_mins(10));
    let renewed = |_: u16, it: &Value| it["spec"]["renewTime"] == "2024-01-01T00:10:00.000000Z";
    plane.until(lease, renewed).await;
    let node = plane.read(path).await;
    assert_eq!(condition(&node, "Ready")["status"], "False");
    assert_eq!(condition(&node, "DiskPressure")["status"], "False");
    plane.stop().await;
}

#[tokio::test]
async fn a_stage_that_is_not_supported_is_reported() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    create_stage(
        &plane,
        "cel",
        json!({
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [{"cel": {"expression": "true"}}]},
            "next": {"delete": true},
        }),
    )
    .await;
    let events = "/api/v1/namespaces/default/events";
    let list = plane.until(events, |_, list| !list["items"].as_array().unwrap().is_empty()).await;
    let event = &list["items"][0];
    assert_eq!(event["reason"], "UnsupportedStage");
    assert_eq!(event["message"], "the stage is ignored: CEL expressions are not supported");
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until_phase("a", "Running").await;
    plane.stop().await;
}

/// The messages and counts of the events about a Stage.
fn reports(list: &Value, stage: &str) -> Vec<(String, i64)> {
    let about = |event: &&Value| event["involvedObject"]["name"] == stage;
    let events = list["items"].as_array().unwrap().iter().filter(about);
    let report = |event: &Value| {
        assert_eq!(event["involvedObject"]["kind"], "Stage");
        assert_eq!(event["reason"], "UnsupportedStage");
        (event["message"].as_str().unwrap().to_owned(), event["count"].as_i64().unwrap())
    };
    events.map(report).collect()
}

#[tokio::test]
async fn a_stage_with_a_wrong_template_is_ignored_and_reported_once() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let stage = |template: &str| {
        json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {},
            "next": {"statusTemplate": template}})
    };
    let events = "/api/v1/namespaces/default/events";
    create_stage(&plane, "bad", stage("phase: {{ nosuch }}")).await;
    let first =
        "the stage is ignored: its template is wrong: the function \"nosuch\" is not supported";
    let first = [(first.to_owned(), 1)];
    plane.until(events, |_, list| reports(list, "bad") == first).await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until_phase("a", "Running").await;

    let mut delayed = stage("phase: Failed");
    delayed["delay"] = json!({"durationMilliseconds": "abc"});
    create_stage(&plane, "next", delayed).await;
    let wrong = "the stage is ignored: spec.delay.durationMilliseconds: invalid type: string \"abc\", expected u64";
    let wrong = [(wrong.to_owned(), 1)];
    let list = plane.until(events, |_, list| reports(list, "next") == wrong).await;
    assert_eq!(reports(&list, "bad"), first, "the other Stage is not reported again");

    let patch = json!({"spec": {"next": {"statusTemplate": "phase: {{ $x }}"}}});
    plane.merge(&format!("{STAGES}/bad"), &patch).await;
    let second = "the stage is ignored: its template is wrong: undefined variable $x";
    let [first] = first;
    let both = [first, (second.to_owned(), 1)];
    let list = plane.until(events, |_, list| reports(list, "bad").len() == 2).await;
    let mut found = reports(&list, "bad");
    found.sort_by_key(|(message, _)| message == second);
    assert_eq!(found, both);
    assert_eq!(reports(&list, "next"), wrong);
    plane.stop().await;
}

#[tokio::test]
async fn a_json_patch_with_wrong_operations_is_reported() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    create_stage(
        &plane,
        "wrong",
        json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchLabels": {"play": "true"}},
            "next": {"patches": [{"type": "json", "subresource": "status", "root": "status",
                "template": "- 7"}]}}),
    )
    .await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"play": "true"}}})).await;
    let list = plane.until(FAILURES, |_, list| !list["items"][0].is_null()).await;
    assert_eq!(
        list["items"][0]["message"],
        "Stage wrong cannot be applied: an operation of a JSON patch must be an object, not 7"
    );
    plane.create_pod("b", json!({}), json!({})).await;
    plane.until_phase("b", "Running").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_template_without_end_is_reported_once_and_rendered_again_after_a_delay() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let (start, end) = ("{{ range 10000 }}".repeat(4), "{{ end }}".repeat(4));
    create_stage(
        &plane,
        "endless",
        json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchLabels": {"play": "true"}},
            "next": {"event": {"type": "Normal", "reason": "Staged", "message": "m"},
                "statusTemplate": format!("phase: Failed{start}{end}")}}),
    )
    .await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"play": "true"}}})).await;
    let list = plane.until(FAILURES, |_, list| !list["items"][0].is_null()).await;
    assert_eq!(
        list["items"][0]["message"],
        "Stage endless cannot be applied: the template takes more than 100000 steps"
    );
    // Each rendering is preceded by an event; the delays between them are at most 1, 2, 4, 8 seconds.
    let renderings = "/api/v1/namespaces/default/events?fieldSelector=reason%3DStaged";
    let is_rendered = |count: i64| move |_: u16, it: &Value| it["items"][0]["count"] == count;
    for (count, seconds) in [(2, 1), (3, 2), (4, 4)] {
        plane.advance(Duration::from_secs(seconds));
        plane.until(renderings, is_rendered(count)).await;
    }
    plane.advance(Duration::from_secs(3));
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"other": "x"}}})).await;
    plane.create_pod("b", json!({}), json!({})).await;
    plane.until_phase("b", "Running").await;
    plane.advance(Duration::from_secs(5));
    let list = plane.until(renderings, is_rendered(5)).await;
    let at = &list["items"][0]["lastTimestamp"];
    assert_eq!(at, "2024-01-01T00:00:15Z", "a change of the pod does not shorten the delay");
    let list = plane.read(FAILURES).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["count"], 1);

    // Less than the delay.
    plane.advance(Duration::from_secs(1));
    let patch = json!({"spec": {"next": {"statusTemplate": "phase: Failed"}}});
    plane.merge(&format!("{STAGES}/endless"), &patch).await;
    plane.until_phase("a", "Failed").await;
    plane.stop().await;
}

#[tokio::test]
async fn a_stage_whose_selector_takes_too_long_is_reported_and_selects_nothing() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let product = [".metadata.annotations[]"; 10].join(" and ");
    let stage = json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": [{"key": product, "operator": "Exists"}]},
        "next": {"statusTemplate": "phase: Failed"}});
    create_stage(&plane, "product", stage).await;
    let annotations: Value = (0..20).map(|i| (format!("a{i}"), json!("x"))).collect();
    plane.create_pod("a", annotations, json!({})).await;
    plane.until_phase("a", "Running").await;
    let list = plane.until(FAILURES, |_, list| !list["items"][0].is_null()).await;
    assert_eq!(
        list["items"][0]["message"],
        "Stage product cannot be applied: its queries take more than 100000 steps"
    );
    plane.stop().await;
}

#[tokio::test]
async fn stages_that_alternate_pause() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    for (name, operator) in [("ping", "NotIn"), ("pong", "In")] {
        // The reason counts the Stages that were applied.
        let template = format!(
            "message: {name}\nreason: {{{{ add 1 (int (or .status.reason `0`)) | quote }}}}"
        );
        let expression =
            json!({"key": ".status.message", "operator": operator, "values": ["ping"]});
        create_stage(
            &plane,
            name,
            json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
                "selector": {"matchLabels": {"play": "true"}, "matchExpressions": [expression]},
                "next": {"statusTemplate": template}}),
        )
        .await;
    }
    plane.create_pod("a", json!({}), json!({})).await;
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"play": "true"}}})).await;
    let count = |pod: &Value| pod["status"]["reason"].as_str().map_or(0, |it| it.parse().unwrap());
    for expect in [10, 20, 30] {
        let pod = plane.until_pod("a", |pod| count(pod) >= expect).await;
        assert_eq!(count(&pod), expect);
        // Other pods start meanwhile.
        let other = format!("other-{expect}");
        plane.create_pod(&other, json!({}), json!({})).await;
        plane.until_phase(&other, "Running").await;
        assert_eq!(count(&plane.read(&format!("{PODS}/a")).await), expect);
        plane.advance(Duration::from_secs(1));
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_pod_whose_stage_fails_can_be_deleted() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let stage = json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"}, "selector": {},
        "next": {"statusTemplate": "a: {{ div 1 0 }}"}});
    create_stage(&plane, "wrong", stage).await;
    plane.create_pod("a", json!({}), json!({})).await;
    plane.until(FAILURES, |_, list| !list["items"][0].is_null()).await;
    let path = format!("{PODS}/a");
    plane.delete(&path).await;
    plane.advance_until(Duration::from_secs(1), &path, |code, _| code == 404).await;
    plane.stop().await;
}

#[tokio::test]
async fn all_functions_of_a_kind_can_be_used() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    let for_pods = "reason: {{ Now }} {{ StartTime }} {{ NodeIP }} {{ NodeIPWith .spec.nodeName }} \
        {{ len NodeIPs }} {{ len (NodeIPsWith .spec.nodeName) }} {{ PodIP }} \
        {{ PodIPWith .spec.nodeName false .metadata.uid }} {{ len PodIPs }} \
        {{ len (PodIPsWith .spec.nodeName true .metadata.uid) }} end";
    let for_nodes = "phase: {{ Now }} {{ StartTime }} {{ NodeIP }} {{ len NodeIPs }} {{ NodeName }} {{ NodePort }}";
    let none =
        |field: &str| json!({"matchExpressions": [{"key": field, "operator": "DoesNotExist"}]});
    for (kind, selector, template) in [
        ("Pod", none(".status.reason"), for_pods),
        ("Node", json!({"matchLabels": {"play": "true"}}), for_nodes),
    ] {
        create_stage(
            &plane,
            &kind.to_lowercase(),
            json!({"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector,
                "next": {"statusTemplate": template}}),
        )
        .await;
    }
    plane.create_pod("a", json!({}), json!({})).await;
    let ends = |value: &Value, end: &str| value.as_str().is_some_and(|it| it.ends_with(end));
    plane.until_pod("a", |pod| ends(&pod["status"]["reason"], " end")).await;
    let path = "/api/v1/nodes/sampan-0";
    plane.until(path, |code, _| code == 200).await;
    plane.merge(path, &json!({"metadata": {"labels": {"play": "true"}}})).await;
    plane.until(path, |_, node| ends(&node["status"]["phase"], "sampan-0 0")).await;
    plane.stop().await;
}

#[tokio::test]
async fn the_example_in_the_documentation_works() {
    let guide = include_str!("../../../../docs/controllers.md");
    let example = |file: &str| {
        let (_, rest) = guide.split_once(&format!("```yaml\n# {file}\n")).unwrap();
        let (text, _) = rest.split_once("```").unwrap();
        yaml::decode(text.as_bytes()).unwrap().value
    };
    let plane = Plane::start(1, &["none"]).await;
    plane.install_crd(&example("stage-crd.yaml")).await;
    plane.create(STAGES, &example("fail.yaml")).await;
    plane.create_pod("web", json!({}), json!({})).await;
    let path = format!("{PODS}/web");
    plane.merge(&path, &json!({"metadata": {"labels": {"fails": "true"}}})).await;
    let start = plane.clock().now();
    let is_failed = |_: u16, pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = plane.advance_until(Duration::from_secs(1), &path, is_failed).await;
    assert!(plane.clock().now().since(start) >= Duration::from_secs(10));
    assert_eq!(pod["status"]["message"], "the stage ended web");
    plane.stop().await;
}

#[tokio::test]
async fn the_texts_of_a_pod_in_a_template_lead_to_no_other_object() {
    let plane = Plane::start(1, &["none"]).await;
    install_crd(&plane).await;
    // A template that does not quote what the user of a pod has written.
    let template = "metadata:\n  annotations:\n    seen: {{ index .metadata.annotations `text` }}";
    create_stage(
        &plane,
        "careless",
        json!({"resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchLabels": {"play": "true"}},
            "next": {"patches": [{"type": "merge", "root": "", "template": template}]}}),
    )
    .await;
    plane.create_pod("victim", json!({}), json!({})).await;
    let victim = plane.until_phase("victim", "Running").await;
    let text = "x\n  name: victim\n  namespace: kube-system";
    plane.create_pod("a", json!({"text": text}), json!({})).await;
    plane.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"play": "true"}}})).await;
    let list = plane.until(FAILURES, |_, list| !list["items"][0].is_null()).await;
    assert_eq!(list["items"][0]["involvedObject"]["name"], "a");
    assert_eq!(plane.read(&format!("{PODS}/victim")).await, victim);
    assert_eq!(plane.get("/api/v1/namespaces/kube-system/pods/victim").await.0, 404);
    plane.stop().await;
}
