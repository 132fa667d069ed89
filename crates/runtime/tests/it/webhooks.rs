//! Admission webhooks of a webhook server, called by an API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_client::api::PostParams;
use kube_core::DynamicObject;
use kube_core::admission::AdmissionRequest;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::log::Log;
use crate::plane::{Plane, certificate_options, server_options, until};
use crate::{https, world};
use runtime::webhook::admission::{mutating, validating};
use runtime::webhook::conversion::converting_with;
use runtime::webhook::{
    Allowed, Certificates, Changed, Denied, Handler, InjectionTarget, ServerOptions, WebhookServer,
    WebhookSet,
};
use runtime::{BackgroundManager, Lister, Manager, ManagerOptions};

/// Adds a label to config maps.
async fn label(request: AdmissionRequest<ConfigMap>) -> Result<Changed<ConfigMap>, Denied> {
    let Some(mut map) = request.object else {
        return Ok(Changed::nothing());
    };
    map.metadata.labels.get_or_insert_default().insert("seen".to_owned(), request.name);
    Ok(Changed::to(map).warn("it was labeled"))
}

/// Denies config maps with the color blue, and green ones as not valid.
async fn deny_blue(request: AdmissionRequest<DynamicObject>) -> Result<Allowed, Denied> {
    match request.object {
        Some(object) if object.data["data"]["color"] == "blue" => Err(Denied::new("no blue maps")),
        Some(object) if object.data["data"]["color"] == "green" => {
            Err(Denied::invalid("data.color", "no green maps"))
        }
        _ => Ok(Allowed::default()),
    }
}

async fn serve(plane: &Plane, certificates: &Certificates) -> SocketAddr {
    let options = ServerOptions {
        max_body: 100_000,
        handler_timeout: Duration::from_secs(5),
        ..server_options()
    };
    WebhookServer::new(options)
        .at("/label", mutating(label))
        .at("/validate", validating(deny_blue))
        .at("/convert", converting_with(|object, _| Ok(object)))
        .at("/panic", Handler::new(async |_| panic!("expected in this test")))
        .start(&certificates.serving(), &plane.clock, &plane.tasks)
        .await
        .unwrap()
}

async fn certificates(plane: &Plane) -> Certificates {
    let Plane { client, clock, entropy, tasks, .. } = plane;
    Certificates::start(client.clone(), certificate_options(), clock, entropy, tasks).await.unwrap()
}

fn configuration(address: SocketAddr, path: &str) -> Value {
    json!({"metadata": {"name": "ours"}, "webhooks": [{
        "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": format!("https://{address}/{path}")},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
    }]})
}

fn map(name: &str, color: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"color": color}})).unwrap()
}

#[tokio::test]
async fn an_api_server_applies_the_patch_of_a_webhook_and_respects_its_denial() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    let address = serve(&plane, &certificates).await;
    certificates.inject(InjectionTarget::Mutating("ours".to_owned()));
    certificates.inject(InjectionTarget::Validating("ours".to_owned()));
    let post = PostParams::default();
    let mutating = plane.all::<MutatingWebhookConfiguration>();
    let validating = plane.all::<ValidatingWebhookConfiguration>();
    let webhook_configuration = serde_json::from_value(configuration(address, "label")).unwrap();
    mutating.create(&post, &webhook_configuration).await.unwrap();
    let webhook_configuration = serde_json::from_value(configuration(address, "validate")).unwrap();
    validating.create(&post, &webhook_configuration).await.unwrap();
    until(&mutating, "ours", |it| {
        it.webhooks.as_ref().unwrap()[0].client_config.ca_bundle.is_some()
    })
    .await;
    until(&validating, "ours", |it| {
        it.webhooks.as_ref().unwrap()[0].client_config.ca_bundle.is_some()
    })
    .await;
    let maps = plane.api::<ConfigMap>();
    let made = maps.create(&post, &map("red", "red")).await.unwrap();
    assert_eq!(made.metadata.labels.unwrap()["seen"], "red");
    let refused = maps.create(&post, &map("blue", "blue")).await.unwrap_err();
    assert!(refused.to_string().contains("denied the request: no blue maps"), "{refused}");
    assert!(maps.get_opt("blue").await.unwrap().is_none());
    let refused = maps.create(&post, &map("green", "green")).await.unwrap_err();
    let kube_client::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let denied = "admission webhook \"hook.example.com\" denied the request";
    assert_eq!(status.message, format!("{denied}: data.color: no green maps"));
    let details = status.details.unwrap();
    assert_eq!((details.kind.as_str(), details.name.as_str()), ("ConfigMap", "green"));
    let cause = &details.causes[0];
    assert_eq!((cause.field.as_str(), cause.message.as_str()), ("data.color", "no green maps"));
}

#[tokio::test]
async fn an_overwritten_bundle_is_written_again() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    certificates.inject(InjectionTarget::Validating("ours".to_owned()));
    let configurations = plane.all::<ValidatingWebhookConfiguration>();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    let webhook_configuration = serde_json::from_value(configuration(address, "validate")).unwrap();
    configurations.create(&PostParams::default(), &webhook_configuration).await.unwrap();
    let ours = certificates.bundle().borrow().clone();
    let has_ours = |it: &ValidatingWebhookConfiguration| {
        let bundle = it.webhooks.as_ref().unwrap()[0].client_config.ca_bundle.as_ref();
        bundle.is_some_and(|it| it.0 == ours.as_bytes())
    };
    let mut found = until(&configurations, "ours", has_ours).await;
    let webhook = &mut found.webhooks.as_mut().unwrap()[0];
    webhook.client_config.ca_bundle = Some(ByteString(ours.repeat(2).into_bytes()));
    let written = configurations.replace("ours", &PostParams::default(), &found).await.unwrap();
    let version = written.metadata.resource_version;
    world::until("it is written again, after a pause", async || {
        plane.clock.advance(Duration::from_millis(100));
        let found = configurations.get("ours").await.unwrap();
        has_ours(&found) && found.metadata.resource_version > version
    })
    .await;
}

/// The response of a handler to a review.
async fn review(handler: &Handler, version: &str, request: Value) -> Value {
    let review = json!({"apiVersion": format!("admission.k8s.io/{version}"),
        "kind": "AdmissionReview", "request": request});
    let response = handler.respond(review.to_string().into()).await.unwrap();
    serde_json::from_slice(&response).unwrap()
}

fn request(object: &Value) -> Value {
    json!({"uid": "7", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "a", "operation": "CREATE", "userInfo": {}, "object": object})
}

#[tokio::test]
async fn the_response_to_a_review_has_its_version() {
    for version in ["v1", "v1beta1"] {
        let object = json!({"metadata": {"name": "a"}, "unknown": 1});
        let reviewed = review(&mutating(label), version, request(&object)).await;
        assert_eq!(reviewed["apiVersion"], format!("admission.k8s.io/{version}"));
        let response = &reviewed["response"];
        assert_eq!(response["uid"], "7");
        assert_eq!(response["warnings"], json!(["it was labeled"]));
        assert_eq!(response["patchType"], "JSONPatch");
        let patch = response["patch"].as_str().unwrap();
        let patch = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, patch);
        let patch: Value = serde_json::from_slice(&patch.unwrap()).unwrap();
        let wanted = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "a"}}]);
        assert_eq!(patch, wanted);
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_denied_with_the_reason() {
    let handler = validating(|_: AdmissionRequest<Pod>| async { Ok(Allowed::default()) });
    let reviewed = review(&handler, "v1", request(&json!({"spec": 1}))).await;
    let response = &reviewed["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("7"), &json!(false)));
    let message = response["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("the webhook cannot read the object: "), "{message}");
    assert!(handler.respond("{}".into()).await.is_err());
}

#[tokio::test]
async fn invalid_requests_are_refused_with_their_codes() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    let address = serve(&plane, &certificates).await;
    let bundle = certificates.bundle().borrow().clone();
    let send = async |path: &str, body: &str| {
        https::send(address, &bundle, &plane.clock, path, body).await.unwrap()
    };
    assert_eq!(send("/readyz", "").await, (200, "ok".to_owned()));
    assert_eq!(send("/nowhere", "{}").await.0, 404);
    assert_eq!(send("/validate", "").await.0, 405);
    assert_eq!(send("/validate", "{").await.0, 400);
    assert_eq!(send("/validate", &" ".repeat(200_000)).await.0, 413);
    let many = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "7", "desiredAPIVersion": "g/v2", "objects": [" ".repeat(200_000)]}});
    assert_eq!(send("/convert", &many.to_string()).await.0, 200, "a whole list in one review");
    assert_eq!(send("/panic", "{}").await, (500, "the webhook panicked".to_owned()));
    assert_eq!(send("/readyz", "").await.0, 200, "after a panic");
    plane.tasks.stop(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_know_the_prefix_of_the_paths_reaches_no_webhook() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    let server = WebhookServer::new(server_options())
        .under("/secret")
        .at("/echo", Handler::new(async |body| Ok(body)));
    let address = server.start(&certificates.serving(), &plane.clock, &plane.tasks).await.unwrap();
    let bundle = certificates.bundle().borrow().clone();
    let send = async |path: &str, body: &str| {
        https::send(address, &bundle, &plane.clock, path, body).await.unwrap().0
    };
    assert_eq!(send("/secret/echo", "{}").await, 200);
    assert_eq!(send("/secret/echo?timeout=1s", "{}").await, 200);
    for path in ["/echo", "/secretecho", "/secret/", "/secre/echo", "//echo"] {
        assert_eq!(send(path, "{}").await, 404, "{path}");
    }
    assert_eq!(send("/readyz", "").await, 200, "the health is public");
}

#[tokio::test]
async fn large_reviews_wait_only_for_other_large_reviews() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    let (report, mut received) = tokio::sync::mpsc::channel(8);
    let gate = Arc::new(Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let handler = Handler::new(move |body| {
        let (report, gate) = (report.clone(), Arc::clone(&gate));
        async move {
            report.send(body.len()).await.unwrap();
            let _passed = gate.acquire().await.unwrap();
            Ok(body)
        }
    });
    let options = ServerOptions { max_body: 10, ..server_options() };
    let server = WebhookServer::new(options).at("/slow", handler.with_max_body(1000));
    let address = server.start(&certificates.serving(), &plane.clock, &plane.tasks).await.unwrap();
    let bundle = certificates.bundle().borrow().clone();
    let send = |length: usize| {
        let (bundle, clock) = (bundle.clone(), plane.clock.clone());
        plane.tasks.spawn("review", async move {
            https::send(address, &bundle, &clock, "/slow", &" ".repeat(length)).await.unwrap().0
        })
    };
    let mut reviews = vec![send(500), send(500)];
    assert_eq!((received.recv().await, received.recv().await), (Some(500), Some(500)));
    reviews.push(send(600));
    let waited = tokio::time::timeout(Duration::from_millis(200), received.recv()).await;
    assert!(waited.is_err(), "a third large review was accepted");
    reviews.push(send(5));
    assert_eq!(received.recv().await, Some(5));
    opened.add_permits(1);
    assert_eq!(received.recv().await, Some(600));
    for review in reviews {
        assert_eq!(review.await.unwrap(), 200);
    }
}

#[tokio::test]
async fn a_review_waits_for_the_cache_of_its_handler_until_shortly_before_the_callers_timeout() {
    let plane = Plane::start().await;
    let certificates = certificates(&plane).await;
    let options = ManagerOptions {
        clock: plane.clock.clone(),
        handles_signals: false,
        ..ManagerOptions::default()
    };
    let manager = Manager::with_tasks(plane.client.clone(), options, &plane.tasks);
    let maps = manager.informer::<ConfigMap>();
    let handler = Handler::new(async |body| Ok(body)).after_sync(maps.has_synced());
    let server = WebhookServer::new(server_options()).at("/review", handler);
    let address = server.start(&certificates.serving(), &plane.clock, &plane.tasks).await.unwrap();
    let bundle = certificates.bundle().borrow().clone();
    let send =
        async |path: &str| https::send(address, &bundle, &plane.clock, path, "{}").await.unwrap();
    let message = "a cache of the webhook is not complete yet, try again".to_owned();
    let sent = tokio::time::Instant::now();
    assert_eq!(send("/review?timeout=1s").await, (500, message));
    assert!(sent.elapsed() < Duration::from_secs(1), "the caller does not wait any longer");
    let (response, ()) = tokio::join!(send("/review?timeout=20s"), async {
        let running = manager.clone();
        plane.tasks.spawn("manager", async move { running.run().await });
    });
    assert_eq!(response, (200, "{}".to_owned()));
    manager.stop();
    plane.tasks.stop(Duration::from_secs(5)).await.unwrap();
}

/// Denies a config map if the cache has another one of its color.
async fn deny_same_color(
    request: AdmissionRequest<ConfigMap>,
    maps: Arc<Lister<ConfigMap>>,
) -> Result<Allowed, Denied> {
    let color = request.object.and_then(|map| map.data);
    if maps.list().objects.into_iter().any(|map| map.data == color) {
        return Err(Denied::invalid("data.color", "another one has this color"));
    }
    Ok(Allowed::default())
}

#[tokio::test]
async fn a_webhook_of_a_set_reads_a_cache_of_the_manager_that_serves_it() {
    let log = Log::start();
    let plane = Plane::start().await;
    let red = plane.api::<ConfigMap>().create(&PostParams::default(), &map("red", "red")).await;
    let options = ManagerOptions {
        clock: plane.clock.clone(),
        handles_signals: false,
        ..ManagerOptions::default()
    };
    let set = WebhookSet::new("ours")
        .validating_with(deny_same_color, |manager: &Manager| manager.lister())
        .after_sync(|manager| manager.informer::<ConfigMap>().has_synced());
    let operator = BackgroundManager::start("operator", plane.client.clone(), options, |manager| {
        set.serve(manager, server_options(), certificate_options());
    });
    let address = operator.manager().webhook_endpoint().await.unwrap();
    let line = log.lines("serves webhooks").concat();
    assert!(line.contains(&format!("url=\"https://{address}\"")), "{line}");
    let secret = plane.api::<Secret>().get("hook-certificates").await.unwrap();
    let bundle = String::from_utf8(secret.data.unwrap()["ca.crt"].0.clone()).unwrap();
    for (object, is_allowed) in [(red.unwrap(), false), (map("blue", "blue"), true)] {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": request(&json!(object))});
        let path = "/validate--v1-configmap";
        let sent = https::send(address, &bundle, &plane.clock, path, &review.to_string()).await;
        let response: Value = serde_json::from_str(&sent.unwrap().1).unwrap();
        assert_eq!(response["response"]["allowed"], is_allowed, "{response}");
    }
    operator.end().await.unwrap();
}
