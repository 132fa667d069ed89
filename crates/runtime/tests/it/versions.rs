//! Two versions of one kind, converted by a webhook that an API server calls.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use crate::plane::{Plane, certificate_options, server_options, until};
use runtime::Versions;
use runtime::versions::{ConversionError, Versions as _};
use runtime::webhook::{Certificates, InjectionTarget, WebhookServer, conversion};

mod v1 {
    #[runtime::resource(group = "example.com", version = "v1", kind = "Gate", namespaced)]
    pub(crate) struct GateSpec {
        pub(crate) endpoint: String,
    }
}

mod v2 {
    #[runtime::resource(group = "example.com", version = "v2", kind = "Gate", namespaced)]
    pub(crate) struct GateSpec {
        pub(crate) host: String,
        pub(crate) port: u16,
    }
}

impl TryFrom<v1::Gate> for v2::Gate {
    type Error = &'static str;

    fn try_from(gate: v1::Gate) -> Result<Self, Self::Error> {
        let (host, port) = gate.spec.endpoint.split_once(':').ok_or("the endpoint has no port")?;
        let port = port.parse().map_err(|_| "the port is not a number")?;
        Ok(Self { metadata: gate.metadata, spec: v2::GateSpec { host: host.to_owned(), port } })
    }
}

impl From<v2::Gate> for v1::Gate {
    fn from(gate: v2::Gate) -> Self {
        let endpoint = format!("{}:{}", gate.spec.host, gate.spec.port);
        Self { metadata: gate.metadata, spec: v1::GateSpec { endpoint } }
    }
}

#[derive(Versions)]
#[allow(dead_code, reason = "the variants only declare the versions")]
enum Gate {
    V1(v1::Gate),
    #[versions(storage)]
    V2(v2::Gate),
}

fn old(endpoint: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gate",
        "metadata": {"name": "a", "namespace": "n", "uid": "7"}, "spec": {"endpoint": endpoint}})
}

#[test]
fn one_version_of_the_crd_is_stored() {
    let crd = Gate::crd().unwrap();
    let mut versions: Vec<_> =
        crd.spec.versions.iter().map(|it| (it.name.as_str(), it.storage)).collect();
    versions.sort_unstable();
    assert_eq!(versions, [("v1", false), ("v2", true)]);
    assert_eq!(crd.metadata.name, v1::Gate::crd().metadata.name);
}

#[test]
fn objects_survive_conversion_in_both_directions() {
    let there = Gate::convert(old("b.c:80"), "example.com/v2").unwrap();
    assert_eq!(there["apiVersion"], "example.com/v2");
    assert_eq!(there["spec"], json!({"host": "b.c", "port": 80}));
    let back = Gate::convert(there, "example.com/v1").unwrap();
    assert_eq!(back, old("b.c:80"));
}

#[test]
fn a_failed_conversion_has_a_reason() {
    let error = |object, version| Gate::convert(object, version).unwrap_err();
    assert_eq!(error(old("b"), "example.com/v2").to_string(), "the endpoint has no port");
    let unknown = error(old("b:1"), "example.com/v3");
    assert!(matches!(unknown, ConversionError::Unknown(version) if version == "example.com/v3"));
    let mut wrong = old("b:1");
    wrong["spec"] = json!({"endpoint": 1});
    assert!(matches!(error(wrong, "example.com/v2"), ConversionError::Decode { .. }));
}

#[tokio::test]
async fn a_batch_is_converted_in_order_or_not_at_all() {
    let handler = conversion::converting::<Gate>();
    let ask = async |objects: Value| -> Value {
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "7", "desiredAPIVersion": "example.com/v2", "objects": objects}});
        let response = handler.respond(review.to_string().into()).await.unwrap();
        serde_json::from_slice::<Value>(&response).unwrap()["response"].take()
    };
    let good = ask(json!([old("a:1"), old("b:2")])).await;
    assert_eq!(good["uid"], "7");
    assert_eq!(good["result"]["status"], "Success");
    let ports = ["/convertedObjects/0/spec/port", "/convertedObjects/1/spec/port"];
    assert_eq!(ports.map(|it| good.pointer(it).and_then(Value::as_u64)), [Some(1), Some(2)]);
    let bad = ask(json!([old("a:1"), old("b")])).await;
    assert_eq!(bad["convertedObjects"], json!([]));
    let message = "cannot convert Gate n/a to example.com/v2: the endpoint has no port";
    assert_eq!(bad["result"], json!({"status": "Failure", "message": message}));
}

/// Server-side apply converts what remains of an object without the fields of a manager.
#[tokio::test]
async fn an_object_that_lacks_required_fields_is_converted_without_them() {
    let handler = conversion::converting::<Gate>();
    let convert = async |spec: Value| -> Value {
        let object = json!({"apiVersion": "example.com/v2", "kind": "Gate", "spec": spec});
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "7", "desiredAPIVersion": "example.com/v1", "objects": [object]}});
        let response = handler.respond(review.to_string().into()).await.unwrap();
        serde_json::from_slice::<Value>(&response).unwrap()["response"].take()
    };
    let partial = convert(json!({"port": 80})).await;
    let without_endpoint = json!({"apiVersion": "example.com/v1", "kind": "Gate"});
    assert_eq!(partial["convertedObjects"], json!([without_endpoint]), "{partial}");
    let whole = convert(json!({"host": "b.c", "port": 80})).await;
    assert_eq!(whole["convertedObjects"][0]["spec"], json!({"endpoint": "b.c:80"}), "{whole}");
    let invalid = convert(json!({"host": 1})).await;
    assert_eq!(invalid["result"]["status"], "Failure");
}

#[tokio::test]
async fn a_server_converts_its_objects_with_the_webhook() {
    let plane = Plane::start().await;
    let Plane { client, clock, entropy, tasks, .. } = &plane;
    let options = certificate_options();
    let certificates =
        Certificates::start(client.clone(), options, clock, entropy, tasks).await.unwrap();
    let address = WebhookServer::new(server_options())
        .at("/convert", conversion::converting::<Gate>())
        .start(&certificates.serving(), clock, tasks)
        .await
        .unwrap();
    let url = Some(format!("https://{address}/convert"));
    let webhook = WebhookClientConfig { url, ..WebhookClientConfig::default() };
    let crd = Gate::crd_converted_by(webhook).unwrap();
    certificates.inject(InjectionTarget::Conversion("gates.example.com".to_owned()));
    plane.env.install_crd(&crd).await;
    let crds = plane.all::<CustomResourceDefinition>();
    until(&crds, "gates.example.com", |it| {
        let conversion = it.spec.conversion.as_ref().unwrap();
        let client = conversion.webhook.as_ref().unwrap().client_config.as_ref().unwrap();
        client.ca_bundle.is_some()
    })
    .await;
    let gate = v1::Gate::new("a", v1::GateSpec { endpoint: "b.c:80".to_owned() });
    plane.api::<v1::Gate>().create(&PostParams::default(), &gate).await.unwrap();
    let new = plane.api::<v2::Gate>().get("a").await.unwrap();
    assert_eq!((new.spec.host.as_str(), new.spec.port), ("b.c", 80));
    let bad = v1::Gate::new("b", v1::GateSpec { endpoint: "b.c".to_owned() });
    let refused = plane.api::<v1::Gate>().create(&PostParams::default(), &bad).await.unwrap_err();
    assert!(refused.to_string().contains("the endpoint has no port"), "{refused}");

    let apply = async |manager: &str, version: &str, fields: Value| {
        let mut object = json!({"apiVersion": format!("example.com/{version}"), "kind": "Gate",
            "metadata": {"name": "c"}});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let parameters = PatchParams::apply(manager);
        if version == "v1" {
            let gates = plane.api::<v1::Gate>();
            gates.patch("c", &parameters, &Patch::Apply(object)).await.map(drop).unwrap();
        } else {
            let gates = plane.api::<v2::Gate>();
            gates.patch("c", &parameters, &Patch::Apply(object)).await.map(drop).unwrap();
        }
    };
    let labels = json!({"metadata": {"name": "c", "labels": {"team": "a"}}});
    for version in ["v1", "v2", "v1"] {
        let spec = match version {
            "v1" => json!({"endpoint": "b.c:80"}),
            _ => json!({"host": "b.c", "port": 80}),
        };
        apply("owner", version, json!({"spec": spec})).await;
        apply("labeller", version, labels.clone()).await;
    }
    let gate = plane.api::<v2::Gate>().get("c").await.unwrap();
    assert_eq!((gate.spec.host.as_str(), gate.spec.port), ("b.c", 80));
    assert_eq!(gate.metadata.labels.unwrap()["team"], "a");
}
