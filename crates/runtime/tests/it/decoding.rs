//! Objects that do not decode as the type of an admission webhook.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::admission::AdmissionRequest;

use crate::plane::{certificate_options, server_options};
use crate::world::{THINGS, Thing};
use machinery::{Value, json};
use runtime::webhook::admission::{
    create_request, delete_request, mutating, mutating_with, update_request, validating_with,
};
use runtime::webhook::{Allowed, Changed, Denied, Handler, InjectionTarget, WebhookServer};
use runtime::{BackgroundManager, ManagerOptions};
use testenv::TestEnv;

struct Context {
    team: &'static str,
}

async fn label(
    request: AdmissionRequest<ConfigMap>,
    cx: Arc<Context>,
) -> Result<Changed<ConfigMap>, Denied> {
    let Some(mut map) = request.object else { return Ok(Changed::nothing()) };
    map.metadata.labels.get_or_insert_default().insert("team".to_owned(), cx.team.to_owned());
    Ok(Changed::to(map))
}

async fn check(request: AdmissionRequest<ConfigMap>, cx: Arc<Context>) -> Result<Allowed, Denied> {
    let name = request.name;
    if name == cx.team { Ok(Allowed::default()) } else { Err(Denied::new(name)) }
}

const BLUE: Context = Context { team: "blue" };

/// The response of a handler to the creation of a config map `blue` with this content.
async fn review(handler: &Handler, data: Value) -> Value {
    let object = json!({"metadata": {"name": "blue"}, "data": data});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "blue", "operation": "CREATE", "userInfo": {}, "object": object,
    }});
    let response = handler.respond(review.to_string().into()).await.unwrap();
    serde_json::from_slice::<Value>(&response).unwrap()["response"].clone()
}

#[tokio::test]
async fn a_mutating_webhook_leaves_an_object_that_it_cannot_read_to_the_server() {
    let handler = mutating_with(label, BLUE);
    let response = review(&handler, json!(7)).await;
    assert_eq!((&response["allowed"], response.get("patch")), (&json!(true), None));
    let warning = response["warnings"][0].as_str().unwrap();
    let start = "the webhook cannot read the object and leaves it unchanged: invalid type: integer";
    assert!(warning.starts_with(start), "{warning}");
    assert!(review(&handler, json!({"a": "b"})).await["patch"].is_string());
}

#[tokio::test]
async fn a_validating_webhook_denies_an_object_that_it_cannot_read() {
    let handler = validating_with(check, BLUE);
    let response = review(&handler, json!(7)).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
    assert_eq!(review(&handler, json!({})).await["allowed"], true);
}

#[tokio::test]
async fn a_test_calls_the_function_of_a_handler_with_an_object() {
    let cx = Arc::new(BLUE);
    let map =
        || serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": "blue"}})).unwrap();
    for request in
        [create_request(map()), update_request(ConfigMap::default(), map()), delete_request(map())]
    {
        assert_eq!(check(request, Arc::clone(&cx)).await, Ok(Allowed::default()));
    }
    assert!(check(create_request(ConfigMap::default()), Arc::clone(&cx)).await.is_err());
    let labeled = label(create_request(map()), cx).await.unwrap().object.unwrap();
    assert_eq!(labeled.metadata.labels.unwrap()["team"], "blue");
}

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, required: [size], properties: {size: {type: integer}}}
---
";

fn configuration(url: &str) -> String {
    let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "resources": ["things"], "operations": ["CREATE"]});
    let webhook = json!({"name": "things.example.com", "rules": [rule], "sideEffects": "None",
        "clientConfig": {"url": format!("{url}/double")}, "admissionReviewVersions": ["v1"]});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration", "metadata": {"name": "things"},
        "webhooks": [webhook]});
    configuration.to_string()
}

#[tokio::test]
async fn the_schema_refuses_what_a_mutating_webhook_cannot_read() {
    async fn double(request: AdmissionRequest<Thing>) -> Result<Changed<Thing>, Denied> {
        let Some(mut thing) = request.object else { return Ok(Changed::nothing()) };
        thing.spec.size *= 2;
        Ok(Changed::to(thing))
    }
    let env = TestEnv::builder().manual_clock_at_present().start().await;
    env.install(CRD).await;
    let options = ManagerOptions { clock: env.clock().clone(), ..ManagerOptions::default() };
    let operator = BackgroundManager::start("operator", env.kube(), options, |manager| {
        let server = WebhookServer::new(server_options()).at("/double", mutating(double));
        let target = InjectionTarget::Mutating("things".to_owned());
        manager.serve_webhooks(server, certificate_options(), [target]);
    });
    let address = operator.manager().webhook_endpoint().await.unwrap();
    env.install(&configuration(&format!("https://{address}"))).await;
    env.wait_for_ca_bundles().await;

    let thing = |name: &str, spec: Value| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
    };
    let doubled = env.create(THINGS, &thing("a", json!({"size": 3}))).await;
    assert_eq!(doubled["spec"]["size"], 6);
    let (code, refused) = env.post(THINGS, &thing("b", json!({}))).await;
    assert_eq!(code, 422);
    let message = refused["message"].as_str().unwrap();
    assert_eq!(message, "Thing.example.com \"b\" is invalid: spec.size: Required value");
    operator.end().await.unwrap();
}
