//! The CRD, the schema, the rules and the informer of an annotated type.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use kube_client::api::PostParams;
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use crate::plane::Plane;
use informer::{
    InformerFactory, List, ListRequest, ListWatch, ListWatchError, WatchRequest, WatchStream,
};
use runtime::crd::InvalidCrd;
use runtime::{InformerExt, IntOrString, crd, resource, schema};

/// A site with
/// a number of pods.
#[resource(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    shortname = "st",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas")
)]
#[derive(PartialEq)]
#[serde(default)]
pub(crate) struct SiteSpec {
    /// The number of pods.
    #[schemars(range(min = 0))]
    pub(crate) replicas: i32,
    pub(crate) host_name: Option<String>,
    #[schema(list_map_keys("name"))]
    pub(crate) ports: Vec<Port>,
    #[schema(list_type = "set")]
    pub(crate) tags: Vec<String>,
    #[schema(preserve_unknown_fields)]
    pub(crate) extra: std::collections::BTreeMap<String, Value>,
}

impl Default for SiteSpec {
    fn default() -> Self {
        let (host_name, ports, tags, extra) = Default::default();
        Self { replicas: 2, host_name, ports, tags, extra }
    }
}

/// A port.
#[schema]
#[derive(PartialEq)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// The observed state.
#[schema]
#[derive(PartialEq, Default)]
pub(crate) struct SiteStatus {
    pub(crate) replicas: i32,
}

/// A window, with rules.
#[resource(
    group = "example.com",
    version = "v1",
    kind = "Window",
    rule("self.min <= self.max", message = "min is larger than max", field_path = ".min"),
    object_rule(
        "self.metadata.name.startsWith('w')",
        message = "no window",
        reason = "FieldValueForbidden",
        field_path = ".spec"
    )
)]
pub(crate) struct WindowSpec {
    #[schema(rule("self >= 0"), rule("self == oldSelf", reason = "FieldValueForbidden"))]
    pub(crate) min: i32,
    pub(crate) max: i32,
}

/// A kind whose CRD is not what kube-derive makes of it.
#[resource(
    group = "example.com",
    version = "v1",
    kind = "Patched",
    status = "SiteStatus",
    status_subresource = false,
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    optional_spec,
    nullable = false,
    rule("self.replicas > 0"),
    patch("minProperties" = 1),
    object_rule("true"),
    object_patch("properties" = {"metadata": {"type": "object"}})
)]
#[derive(PartialEq, Default)]
pub(crate) struct PatchedSpec {
    #[schema(patch("format" = null, "default" = 1))]
    pub(crate) replicas: Option<i32>,
    #[schemars(required)]
    #[schema(patch("nullable" = true))]
    pub(crate) owner: Option<String>,
    #[schema(patch("items" = {"maxLength": 3}, "oneOf" = [{"maxItems": 1}, {"minItems": 2}]))]
    pub(crate) names: Vec<String>,
    pub(crate) port: Option<IntOrString>,
}

#[test]
fn patches_are_the_last_word_about_a_schema() {
    let definition = serde_json::to_value(Patched::crd()).unwrap();
    let version = &definition["spec"]["versions"][0];
    let root = &version["schema"]["openAPIV3Schema"];
    assert_eq!(root["properties"]["metadata"], json!({"type": "object"}));
    assert_eq!(root["required"], Value::Null);
    assert_eq!(root["properties"]["status"]["nullable"], Value::Null);
    assert_eq!(root["x-kubernetes-validations"][0]["rule"], "true");
    let spec = &root["properties"]["spec"];
    assert_eq!(spec["minProperties"], 1);
    assert_eq!(spec["required"], json!(["names", "owner"]));
    let alternatives = json!([{"maxItems": 1}, {"minItems": 2}]);
    let properties = json!({
        "names": {"type": "array", "items": {"type": "string", "maxLength": 3}, "oneOf": alternatives},
        "owner": {"type": "string", "nullable": true},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "replicas": {"type": "integer", "default": 1},
    });
    assert_eq!(spec["properties"], properties);
    let scale =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    assert_eq!(version["subresources"], json!({"scale": scale}));
}

#[test]
fn an_object_without_an_optional_spec_stays_without_one() {
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Patched", "metadata": {"name": "a"}});
    let mut patched: Patched = serde_json::from_value(object.clone()).unwrap();
    assert!(patched.spec.is_none());
    assert_eq!(serde_json::to_value(&patched).unwrap(), object);
    patched.spec = PatchedSpec::default().into();
    let spec = json!({"names": [], "owner": null});
    assert_eq!(serde_json::to_value(&patched).unwrap()["spec"], spec);
}

fn spec_schema<K: CustomResourceExt>() -> Value {
    let definition = serde_json::to_value(K::crd()).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn the_schema_has_the_descriptions_defaults_and_list_types_of_the_fields() {
    let spec = spec_schema::<Site>();
    let fields = &spec["properties"];
    assert_eq!(fields["replicas"]["description"], "The number of pods.");
    assert_eq!(fields["replicas"]["default"], 2);
    assert_eq!(fields["replicas"]["minimum"].as_f64(), Some(0.0));
    assert_eq!(fields["hostName"]["nullable"], true);
    assert_eq!(fields["ports"]["x-kubernetes-list-type"], "map");
    assert_eq!(fields["ports"]["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(fields["tags"]["x-kubernetes-list-type"], "set");
    assert_eq!(fields["extra"]["x-kubernetes-preserve-unknown-fields"], true);
    let definition = serde_json::to_value(Site::crd()).unwrap();
    let version = &definition["spec"]["versions"][0];
    let description = &version["schema"]["openAPIV3Schema"]["description"];
    assert_eq!(description, "A site with a number of pods.");
}

#[test]
fn rules_are_in_the_schema_of_their_field() {
    let spec = spec_schema::<Window>();
    let whole = json!([{"rule": "self.min <= self.max", "message": "min is larger than max",
        "fieldPath": ".min"}]);
    assert_eq!(spec["x-kubernetes-validations"], whole);
    let field = json!([{"rule": "self >= 0"},
        {"rule": "self == oldSelf", "reason": "FieldValueForbidden"}]);
    assert_eq!(spec["properties"]["min"]["x-kubernetes-validations"], field);
}

#[test]
fn object_rules_are_at_the_root_of_the_schema() {
    let definition = serde_json::to_value(Window::crd()).unwrap();
    let root = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let rules = json!([{"rule": "self.metadata.name.startsWith('w')", "message": "no window",
        "reason": "FieldValueForbidden", "fieldPath": ".spec"}]);
    assert_eq!(root["x-kubernetes-validations"], rules);
    assert_eq!(root["description"], "A window, with rules.");
    assert_eq!(root["properties"]["spec"], spec_schema::<Window>());
    assert_eq!(root["required"], json!(["spec"]));
}

#[test]
fn the_schemas_are_valid() {
    for definition in [Site::crd(), Window::crd()] {
        crd::validate(&definition).unwrap();
    }
}

/// A resource whose rule names a field that does not exist.
#[resource(group = "example.com", version = "v1", kind = "Heap", rule("self.hight > 0"))]
pub(crate) struct HeapSpec {
    pub(crate) height: i32,
}

#[test]
fn validation_errors_name_their_field() {
    let mut definition = Heap::crd();
    let InvalidCrd(errors) = crd::validate(&definition).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let field = "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: ";
    assert!(errors[0].starts_with(field), "{errors:?}");
    assert!(errors[0].contains("undefined field 'hight'"), "{errors:?}");
    definition.spec.versions[0].schema = None;
    let InvalidCrd(errors) = crd::validate(&definition).unwrap_err();
    let missing = "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required";
    assert_eq!(errors, [missing]);
}

#[tokio::test]
async fn the_server_evaluates_object_rules() {
    let plane = Plane::start().await;
    plane.env.install_crd(&Window::crd()).await;
    let windows = plane.all::<Window>();
    let spec = WindowSpec { min: 1, max: 2 };
    windows.create(&PostParams::default(), &Window::new("w1", spec.clone())).await.unwrap();
    let refused = windows.create(&PostParams::default(), &Window::new("door", spec)).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("spec: Forbidden: no window"), "{message}");
}

#[tokio::test]
async fn a_server_accepts_the_crd_and_sets_the_defaults() {
    let plane = Plane::start().await;
    plane.env.install_crd(&Site::crd()).await;
    let spec =
        SiteSpec { ports: vec![Port { name: "http".to_owned(), port: 80 }], ..SiteSpec::default() };
    let sites = plane.api::<Site>();
    let made = sites.create(&PostParams::default(), &Site::new("a", spec.clone())).await.unwrap();
    assert_eq!(made.spec, spec);
    let bare = http::Request::post("/apis/example.com/v1/namespaces/default/sites")
        .body(
            json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "b"},
            "spec": {}})
            .to_string()
            .into_bytes(),
        )
        .unwrap();
    let made: Value = plane.client.request(bare).await.unwrap();
    assert_eq!(made["spec"]["replicas"], 2, "the server sets the default of the type");
    assert_eq!(sites.get_scale("b").await.unwrap().spec.unwrap().replicas, Some(2));
}

/// A server with one site.
struct OneSite;

impl ListWatch for OneSite {
    fn list(&self, _: ListRequest) -> BoxFuture<'_, Result<List, ListWatchError>> {
        Box::pin(async {
            List::parse(
                r#"{"metadata":{"resourceVersion":"7"},"items":[{"apiVersion":"example.com/v1",
                "kind":"Site","metadata":{"namespace":"n","name":"a"},"spec":{"replicas":5}}]}"#,
            )
        })
    }

    fn watch(&self, _: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        Box::pin(async { Ok(stream::pending().boxed()) })
    }

    fn uses_watch_list(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_kind_has_an_informer_and_a_lister() {
    let (clock, entropy, tasks) =
        (keel::Clock::system(), keel::Entropy::seeded(1), keel::Tasks::new());
    let source = |_: &informer::Scope| Arc::new(OneSite) as Arc<dyn ListWatch>;
    let options = informer::InformerOptions::default();
    let factory = InformerFactory::new(source, options, &clock, &entropy, &tasks);
    let sites = Site::lister(&factory);
    let same = Site::informer(&factory);
    factory.start();
    factory.wait_for_sync().await.unwrap();
    let site = sites.get("n", "a").unwrap().unwrap();
    assert_eq!(site.spec.replicas, 5);
    assert_eq!(same.indexer().len(), 1);
    assert_eq!(Site::scope().to_string(), factory.scopes()[0]);
    tasks.stop(Duration::from_secs(5)).await.unwrap();
}
