//! The objects of requests in events: decoded, with their defaults, in the version of the request.

use http::Method;

use super::AuditedPlane;
use crate::objects::CONFIG_MAPS;
use machinery::{Value, json};
use testenv::media_type::MERGE_PATCH;

const APPLY_PATCH: &str = "application/apply-patch+yaml";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// Whether the text of the log contains a request object.
fn has_object(plane: &AuditedPlane, json: &str) -> bool {
    let text = std::fs::read_to_string(&plane.path).unwrap();
    text.contains(&format!("\"requestObject\":{json},"))
}

#[tokio::test]
async fn an_object_is_recorded_as_decoded_in_the_order_of_its_type() {
    let plane = AuditedPlane::start("- level: Request").await;
    let body = r#"{"data": {"k": "1", "k": "2"}, "metadata": {"name": "a"}, "unknown": 1}"#;
    let response = plane.env.send(Method::POST, CONFIG_MAPS, "application/json", body).await;
    assert_eq!(response.code, 201);
    let recorded =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"2"}}"#;
    assert!(has_object(&plane, recorded), "{}", plane.last("/configmaps"));
    let path = format!("{CONFIG_MAPS}/a");
    plane.env.put(&path, &json!({"metadata": {"name": "a"}})).await;
    let recorded = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}"#;
    assert!(has_object(&plane, recorded), "{}", plane.last("/configmaps"));
}

#[tokio::test]
async fn defaults_are_recorded_and_objects_that_cannot_be_decoded_are_not() {
    let plane = AuditedPlane::start("- level: Request").await;
    plane.env.create(DEPLOYMENTS, &deployment()).await;
    let recorded = concat!(
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"#,
        r#""spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":"#,
        r#"{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","resources":{},"#,
        r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","#,
        r#""imagePullPolicy":"Always"}],"restartPolicy":"Always","#,
        r#""terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"#,
        r#""schedulerName":"default-scheduler"}},"strategy":{"type":"RollingUpdate","#,
        r#""rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},"revisionHistoryLimit":10,"#,
        r#""progressDeadlineSeconds":600},"status":{}}"#,
    );
    assert!(has_object(&plane, recorded), "{}", plane.last("/deployments"));
    let mut invalid = deployment();
    invalid["unknown"] = 1.into();
    let uri = format!("{DEPLOYMENTS}?fieldValidation=Strict");
    assert_eq!(plane.env.post(&uri, &invalid).await.0, 400);
    let event = plane.last("Strict");
    assert_eq!((event.get("requestObject"), event["objectRef"].get("name")), (None, None));
}

#[tokio::test]
async fn the_patch_of_a_scale_is_recorded() {
    let plane = AuditedPlane::start("- level: Request").await;
    plane.env.create(DEPLOYMENTS, &deployment()).await;
    let scale = format!("{DEPLOYMENTS}/d/scale");
    let patch = json!({"spec": {"replicas": 2}});
    plane.env.patch(&scale, MERGE_PATCH, &patch).await;
    assert_eq!(plane.last("/scale")["requestObject"], patch);
    let apply = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 2}});
    plane.env.patch(&format!("{scale}?fieldManager=m"), APPLY_PATCH, &apply).await;
    assert_eq!(plane.last("/scale")["requestObject"], apply);
    let update = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    plane.env.put(&scale, &update).await;
    let recorded = &plane.last("/scale")["requestObject"];
    assert_eq!((&recorded["kind"], &recorded["spec"]), (&json!("Scale"), &update["spec"]));
}

#[tokio::test]
async fn the_objects_of_other_kinds_have_a_kind_and_defaults() {
    let plane = AuditedPlane::start("- level: Request").await;
    plane.env.create(ACCOUNTS, &json!({"metadata": {"name": "s"}})).await;
    plane.env.create(&format!("{ACCOUNTS}/s/token"), &json!({"spec": {}})).await;
    let recorded = concat!(
        r#"{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"#,
        r#""spec":{"audiences":null,"expirationSeconds":3600,"boundObjectRef":null},"#,
        r#""status":{"token":"","expirationTimestamp":null}}"#,
    );
    assert!(has_object(&plane, recorded), "{}", plane.last("/token"));
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    assert_eq!(plane.env.post(&format!("{PODS}/p/eviction"), &eviction).await.0, 404);
    let recorded = r#"{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"p"},"deleteOptions":{"dryRun":["All"]}}"#;
    assert!(has_object(&plane, recorded), "{}", plane.last("/eviction"));
    let options = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0});
    plane.env.delete_with(&format!("{CONFIG_MAPS}/a"), &options).await;
    let recorded = r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/__internal","gracePeriodSeconds":0,"propagationPolicy":"Background"}"#;
    assert!(has_object(&plane, recorded), "{}", plane.last("/configmaps"));
}
