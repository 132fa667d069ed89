//! Tests of server-side apply to built-in and custom resources.

use std::sync::Arc;

use proptest::prelude::*;

use kinds::table;
use machinery::patch::apply::{self, Force, Request, Set, scale};
use machinery::{Object, Value, json, timestamp};
use types::apply::{CustomSchema, ResourceVersions, TypeRef, filter};
use types::normalize;
use types::resource::{Resource, Shape, Version};

/// One object of one resource, which apply and update requests change.
struct LiveObject {
    resource: Resource,
    schemas: Vec<Arc<CustomSchema>>,
    live: Option<Object>,
    /// The time of the last request; each is made a second after the one before.
    seconds: i64,
}

impl LiveObject {
    fn of(kind: &str) -> Self {
        let resource = table::builtin().into_iter().find(|it| it.kind == kind);
        Self { resource: resource.unwrap(), schemas: Vec::new(), live: None, seconds: 0 }
    }

    /// An object of a custom resource with this schema for its spec.
    fn custom(spec: Value) -> Self {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let crd = json!({"spec": {"group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
        let crd = Object::from_value(crd).unwrap();
        let resource = kinds::apiextensions::custom::resource(&crd).unwrap();
        let schemas = vec![Arc::new(CustomSchema::compile(Some(&schema), false))];
        Self { resource, schemas, live: None, seconds: 0 }
    }

    fn version(&self) -> &Version {
        self.resource.storage_version()
    }

    fn object(&self, mut value: Value) -> Object {
        value["apiVersion"] = self.resource.api_version(self.version()).into();
        value["kind"] = self.resource.kind.clone().into();
        value["metadata"]["name"] = "a".into();
        Object::from_value(value).unwrap()
    }

    /// The object in the form in which it is stored, with defaults.
    fn stored_form(&self, object: Object) -> Object {
        let mut value = object.into_value();
        if let Shape::Typed(ty) = self.version().shape {
            normalize(ty, &mut value, &mut |_| {}).unwrap();
        }
        let mut object = Object::from_value(value).unwrap();
        (self.resource.strategy.defaults)(&mut object);
        object.set_meta("uid", "u");
        object
    }

    fn with_request<R>(
        &mut self,
        manager: &str,
        subresource: &str,
        run: impl FnOnce(&Request<'_, TypeRef<'_>, ResourceVersions<'_>>, Option<&Object>) -> R,
    ) -> R {
        self.seconds += 1;
        let versions = ResourceVersions { resource: &self.resource, schemas: &self.schemas };
        let request = Request {
            schema: versions.type_ref(self.resource.storage_index),
            api_version: &self.resource.api_version(self.version()),
            kind: &self.resource.kind,
            subresource,
            manager,
            filter: filter(&self.resource, self.version(), subresource),
            now: &timestamp::format_seconds(self.seconds),
            versions: &versions,
        };
        run(&request, self.live.as_ref())
    }

    fn try_apply(
        &mut self,
        manager: &str,
        subresource: &str,
        config: Value,
        force: Force,
    ) -> Result<(), apply::Error> {
        let config = self.object(config);
        let applied = self.with_request(manager, subresource, |request, live| {
            apply::apply(request, live, &config, force)
        })?;
        let mut applied = self.stored_form(applied);
        if let Some(live) = &self.live {
            apply::keep_times_if_unchanged(live, &mut applied);
        }
        self.live = Some(applied);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, "", config, Force::No).unwrap();
        self
    }

    fn refusal(&mut self, manager: &str, config: Value) -> String {
        self.try_apply(manager, "", config, Force::No).unwrap_err().to_string()
    }

    /// Creates or replaces the object.
    fn put(&mut self, manager: &str, subresource: &str, value: Value) -> &mut Self {
        let mut new = self.stored_form(self.object(value));
        self.with_request(manager, subresource, |request, live| {
            apply::update(request, live, &mut new);
        });
        self.live = Some(new);
        self
    }

    fn live(&self, path: &[&str]) -> Value {
        self.live.as_ref().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// The managed fields, each entry as `manager operation subresource@second fields`.
    fn owners(&self) -> Vec<String> {
        let list = self.live(&["metadata", "managedFields"]);
        let text = |entry: &Value, key| entry[key].as_str().unwrap_or_default().to_owned();
        let shown = |entry: &Value| {
            let seconds = timestamp::parse(&text(entry, "time")).map(|(seconds, _)| seconds);
            let time = seconds.map_or("-".to_owned(), |it| it.to_string());
            let (manager, operation) = (text(entry, "manager"), text(entry, "operation"));
            let fields = Set::parse(&entry["fieldsV1"]).unwrap().to_json();
            format!("{manager} {operation} {}@{time} {fields}", text(entry, "subresource"))
        };
        list.as_array().into_iter().flatten().map(shown).collect()
    }
}

#[test]
fn an_applier_owns_the_leaves_of_its_configuration() {
    let mut it = LiveObject::of("ConfigMap");
    it.apply("me", json!({"metadata": {"labels": {"x": "y"}}, "data": {"k": "v"}}));
    let owner = r#"me Apply @1 {"f:data":{"f:k":{}},"f:metadata":{"f:labels":{"f:x":{}}}}"#;
    assert_eq!(it.owners(), [owner]);
    let before = it.live.clone();
    it.apply("me", json!({"metadata": {"labels": {"x": "y"}}, "data": {"k": "v"}}));
    assert_eq!(it.live, before);
}

#[test]
fn managers_can_share_a_value_and_the_later_entry_has_no_time() {
    let mut it = LiveObject::of("ConfigMap");
    it.apply("one", json!({"data": {"x": "1"}})).apply("two", json!({"data": {"x": "1"}}));
    let fields = r#"{"f:data":{"f:x":{}}}"#;
    assert_eq!(it.owners(), [format!("two Apply @- {fields}"), format!("one Apply @1 {fields}")]);
    // The field stays as long as one of the managers owns it.
    it.apply("one", json!({}));
    assert_eq!(it.live(&["data"]), json!({"x": "1"}));
    it.apply("two", json!({}));
    assert_eq!((it.live(&["data"]), it.owners()), (Value::Null, vec![]));
}

#[test]
fn a_conflict_names_managers_and_fields() {
    let mut it = LiveObject::of("ConfigMap");
    it.apply("one", json!({"data": {"x": "1", "y": "1"}}))
        .apply("two", json!({"data": {"z": "1"}}));
    assert_eq!(
        it.refusal("three", json!({"data": {"z": "2"}})),
        r#"Apply failed with 1 conflict: conflict with "two": .data.z"#
    );
    assert_eq!(
        it.refusal("three", json!({"data": {"x": "2", "y": "2", "z": "2"}})),
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.x\n- .data.y\nconflicts with \"two\":\n- .data.z"
    );
    it.try_apply("three", "", json!({"data": {"x": "2"}}), Force::Yes).unwrap();
    assert_eq!(
        it.owners(),
        [
            r#"one Apply @1 {"f:data":{"f:y":{}}}"#,
            r#"two Apply @2 {"f:data":{"f:z":{}}}"#,
            r#"three Apply @5 {"f:data":{"f:x":{}}}"#,
        ]
    );
}

#[test]
fn a_conflict_with_an_update_names_its_version_and_subresource() {
    let mut it = LiveObject::of("Deployment");
    it.put("editor", "", json!({"spec": {"paused": true}}));
    assert_eq!(
        it.refusal("me", json!({"spec": {"paused": false}})),
        r#"Apply failed with 1 conflict: conflict with "editor" using apps/v1: .spec.paused"#
    );
    it.put("loop", "status", json!({"spec": {"paused": true}, "status": {"replicas": 1}}));
    let refusal = it.try_apply("me", "status", json!({"status": {"replicas": 2}}), Force::No);
    let apply::Error::Conflicts(conflicts) = refusal.unwrap_err() else { unreachable!() };
    let cause = conflicts.causes().remove(0);
    let expected = r#"conflict with "loop" with subresource "status" using apps/v1"#;
    assert_eq!((cause.message.as_str(), cause.field.as_str()), (expected, ".status.replicas"));
}

#[test]
fn an_update_owns_the_fields_that_it_changes() {
    let mut it = LiveObject::of("ConfigMap");
    it.put("mytool", "", json!({"data": {"x": "1"}}));
    it.put("other", "", json!({"data": {"x": "1", "y": "2"}}));
    let mytool = r#"mytool Update @1 {"f:data":{".":{},"f:x":{}}}"#;
    assert_eq!(it.owners(), [mytool, r#"other Update @2 {"f:data":{"f:y":{}}}"#]);
    it.put("other", "", json!({"data": {"x": "1", "y": "2"}}));
    assert_eq!(it.owners()[1], r#"other Update @2 {"f:data":{"f:y":{}}}"#);
    it.put("third", "", json!({"data": {"x": "2"}}));
    assert_eq!(
        it.owners(),
        [r#"mytool Update @1 {"f:data":{}}"#, r#"third Update @4 {"f:data":{"f:x":{}}}"#]
    );
}

#[test]
fn an_update_does_not_own_structs_that_go_always_writes() {
    let mut it = LiveObject::of("Deployment");
    it.put(
        "kubectl",
        "",
        json!({"spec": {"selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    );
    let list = it.live(&["metadata", "managedFields"]);
    let spec = &list[0]["fieldsV1"]["f:spec"];
    assert_eq!(
        spec["f:strategy"],
        json!({"f:type": {},
        "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}})
    );
    assert_eq!(spec["f:selector"], json!({}));
    let pod = &spec["f:template"]["f:spec"];
    assert_eq!(pod["f:securityContext"], json!({}));
    assert_eq!(
        pod["f:containers"],
        json!({r#"k:{"name":"c"}"#: {".": {}, "f:image": {},
        "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {}, "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {}}})
    );
    assert!(list[0]["fieldsV1"].get("f:status").is_none());
}

fn deployment(containers: Value) -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template":
        {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}}})
}

#[test]
fn containers_are_a_map_by_name_and_their_order_is_kept() {
    let mut it = LiveObject::of("Deployment");
    it.apply(
        "one",
        deployment(json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "1"}]}])),
    );
    assert_eq!(
        it.owners(),
        [concat!(
            r#"one Apply @1 {"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"#,
            r#""f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":"#,
            r#"{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":"#,
            r#"{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}"#
        )]
    );
    let two =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "d", "image": "j"}]}}}});
    it.apply("two", two);
    let names = |it: &LiveObject| -> Vec<Value> {
        let list = it.live(&["spec", "template", "spec", "containers"]);
        list.as_array().unwrap().iter().map(|it| it["name"].clone()).collect()
    };
    assert_eq!(names(&it), ["c", "d"]);
    it.apply("one", deployment(json!([{"name": "c", "image": "i"}])));
    assert_eq!(names(&it), ["c", "d"]);
    it.apply("one", deployment(json!([{"name": "e"}, {"name": "c", "image": "i"}])));
    assert_eq!(names(&it), ["e", "c", "d"]);
    it.apply("one", json!({"spec": {"selector": {"matchLabels": {"app": "a"}}}}));
    assert_eq!(names(&it), ["d"]);
}

#[test]
fn schema_mismatches_are_reported() {
    let mut it = LiveObject::of("Deployment");
    let prefix = "failed to create typed patch object (/a; apps/v1, Kind=Deployment): ";
    for (config, why) in [
        (
            deployment(json!([{"name": "c", "image": "i"}, {"name": "c", "image": "j"}])),
            r#".spec.template.spec.containers: duplicate entries for key [name="c"]"#,
        ),
        (json!({"spec": {"replica": 1}}), ".spec.replica: field not declared in schema"),
        (
            json!({"spec": {"replicas": "three"}}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (json!({"spec": [1]}), ".spec: expected map, got &{[1]}"),
        (
            json!({"metadata": {"labels": {"a": 1}}, "spec": {"paused": "no"}}),
            "errors:\n  .metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}\n  .spec.paused: expected boolean, got &{no}",
        ),
    ] {
        assert_eq!(it.refusal("one", config), format!("{prefix}{why}"));
    }
}

#[test]
fn a_configuration_with_managed_fields_or_without_a_type_is_refused() {
    let mut it = LiveObject::of("ConfigMap");
    let sent = json!({"metadata": {"managedFields": [{"manager": "x"}]}});
    assert_eq!(it.refusal("me", sent), "metadata.managedFields must be nil");
    let untyped = Object::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let refused = it.with_request("me", "", |request, live| {
        apply::apply(request, live, &untyped, Force::No).unwrap_err().to_string()
    });
    assert_eq!(refused, "invalid object type: /, Kind=");
}

#[test]
fn an_atomic_list_belongs_to_one_manager() {
    let parts =
        json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}});
    let mut it = LiveObject::custom(json!({"type": "object", "properties": {"parts": parts}}));
    it.apply("one", json!({"spec": {"parts": ["x"]}}));
    assert_eq!(
        it.refusal("two", json!({"spec": {"parts": ["x", "y"]}})),
        r#"Apply failed with 1 conflict: conflict with "one": .spec.parts"#
    );
}

#[test]
fn the_elements_of_a_set_are_merged_and_owned_separately() {
    let parts =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let mut it = LiveObject::custom(json!({"type": "object", "properties": {"parts": parts}}));
    it.apply("one", json!({"spec": {"parts": ["x", "y"]}}));
    it.apply("two", json!({"spec": {"parts": ["y", "z"]}}));
    let two = r#"two Apply @2 {"f:spec":{"f:parts":{"v:\"y\"":{},"v:\"z\"":{}}}}"#;
    let one = r#"one Apply @1 {"f:spec":{"f:parts":{"v:\"x\"":{},"v:\"y\"":{}}}}"#;
    assert_eq!(
        (it.owners(), it.live(&["spec", "parts"])),
        (vec![one.into(), two.into()], json!(["x", "y", "z"]))
    );
    it.apply("one", json!({"spec": {"parts": []}}));
    assert_eq!((it.owners(), it.live(&["spec", "parts"])), (vec![two.into()], json!(["y", "z"])));
}

#[test]
fn a_list_map_may_have_two_keys_and_a_default() {
    let ports = json!({"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {"type": "object", "properties":
            {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "note": {"type": "string"}}}});
    let mut it = LiveObject::custom(json!({"type": "object", "properties": {"ports": ports}}));
    it.apply("one", json!({"spec": {"ports": [{"port": 80, "note": "a"}]}}));
    it.apply("two", json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "note": "b"}]}}));
    assert_eq!(
        it.owners(),
        [
            r#"one Apply @1 {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:note":{},"f:port":{}}}}}"#,
            r#"two Apply @2 {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:note":{},"f:port":{},"f:protocol":{}}}}}"#,
        ]
    );
    assert_eq!(
        it.refusal("two", json!({"spec": {"ports": [1]}})),
        "failed to create typed patch object (/a; example.dev/v1, Kind=Widget): .spec.ports: element 0: associative list with keys may not have non-map elements"
    );
}

#[test]
fn unknown_fields_of_a_custom_resource_are_maps_and_atomic_lists() {
    let mut it = LiveObject::custom(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"template": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
            "size": {"x-kubernetes-int-or-string": true},
            "color": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"r": {"type": "integer"}}}}}),
    );
    it.apply("me", json!({"metadata": {"finalizers": ["f"]}, "spec": {"free": {"a": {"b": [1, 2]}}, "size": "10%",
        "color": {"r": 1}, "template": {"kind": "X", "metadata": {"labels": {"l": "m"}}, "spec": {"c": 1}}}}));
    assert_eq!(
        it.owners(),
        [concat!(
            r#"me Apply @1 {"f:metadata":{"f:finalizers":{"v:\"f\"":{}}},"f:spec":{"f:color":{},"f:free":{".":{},"f:a":{".":{},"f:b":{}}},"#,
            r#""f:size":{},"f:template":{"f:kind":{},"f:metadata":{"f:labels":{"f:l":{}}},"f:spec":{".":{},"f:c":{}}}}}"#
        )]
    );
}

#[test]
fn the_status_has_an_entry_of_its_own() {
    let mut it = LiveObject::of("Deployment");
    it.apply("one", deployment(json!([{"name": "c", "image": "i"}])));
    it.try_apply("one", "status", json!({"status": {"observedGeneration": 1}}), Force::No).unwrap();
    assert_eq!(it.owners()[1], r#"one Apply status@2 {"f:status":{"f:observedGeneration":{}}}"#);
    assert!(it.owners()[0].starts_with("one Apply @1"));
    // An apply to the main resource does not own the status, which it cannot change.
    it.apply("one", json!({"spec": {"replicas": 2}, "status": {"replicas": 5}}));
    assert!(it.owners().iter().any(|it| it == r#"one Apply @3 {"f:spec":{"f:replicas":{}}}"#));
}

#[test]
fn an_update_of_the_scale_takes_ownership_of_the_replicas() {
    let mut it = LiveObject::of("Deployment");
    it.apply("one", json!({"spec": {"replicas": 1, "paused": true}}));
    let parent = it.live.clone().unwrap();
    let replicas = scale::Replicas {
        api_version: "apps/v1",
        path: &|version| {
            (version == "apps/v1").then(|| vec!["spec".to_owned(), "replicas".to_owned()])
        },
    };
    let shown = |count| {
        let value = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "a", "uid": "u"}, "spec": {"replicas": count}, "status": {"replicas": 0}});
        Object::from_value(value).unwrap()
    };
    let (mut old, mut new) = (shown(1), shown(4));
    old.set_meta("managedFields", scale::to_subresource(&parent, replicas).unwrap());
    let request = Request {
        schema: TypeRef::Type(types::of_kind("autoscaling/v1", "Scale").unwrap()),
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        manager: "autoscaler",
        filter: apply::Filter::ALL,
        now: "2024-01-01T00:00:00Z",
        versions: &apply::OnlyVersion,
    };
    apply::update(&request, Some(&old), &mut new);
    let entries = scale::to_parent(&parent, &new, replicas).unwrap();
    it.live.as_mut().unwrap().set_meta("managedFields", entries);
    assert_eq!(
        it.owners(),
        [
            r#"one Apply @1 {"f:spec":{"f:paused":{}}}"#,
            r#"autoscaler Update scale@- {"f:spec":{"f:replicas":{}}}"#,
        ]
    );
}

#[test]
fn entries_of_another_version_are_compared_in_that_version() {
    let mut it = LiveObject::of("HorizontalPodAutoscaler");
    let spec = |max: i64, min: Option<i64>| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let mut spec = json!({"scaleTargetRef": target, "maxReplicas": max});
        spec.as_object_mut().unwrap().extend(min.map(|min| ("minReplicas".to_owned(), min.into())));
        json!({"spec": spec})
    };
    it.apply("one", spec(5, Some(2))).apply("two", json!({"spec": {"maxReplicas": 5}}));
    let entries = it.live.as_mut().unwrap().get_mut(&["metadata", "managedFields"]).unwrap();
    for entry in entries.as_array_mut().unwrap() {
        entry["apiVersion"] = "autoscaling/v1".into();
    }
    let refusal = it.refusal("three", json!({"spec": {"maxReplicas": 6}}));
    assert!(refusal.starts_with("Apply failed with 2 conflicts"), "{refusal}");
    // A field that was applied in the old version is removed if the new version's apply omits it.
    it.apply("one", spec(5, None));
    assert_eq!(it.live(&["spec", "minReplicas"]), json!(1));
    let target = r#"{"f:apiVersion":{},"f:kind":{},"f:name":{}}"#;
    let one = format!(
        r#"one Apply @4 {{"f:spec":{{"f:maxReplicas":{{}},"f:scaleTargetRef":{target}}}}}"#
    );
    assert_eq!(it.owners()[1], one);
    // An entry in an unknown version owns nothing.
    let entries = it.live.as_mut().unwrap().get_mut(&["metadata", "managedFields"]).unwrap();
    entries[0]["apiVersion"] = "autoscaling/v0".into();
    it.apply("three", json!({"spec": {"minReplicas": 3}}));
    assert_eq!(it.owners().len(), 2);
}

#[test]
fn a_subresource_owns_only_its_own_fields() {
    let mut it = LiveObject::of("Pod");
    let pod = |image: &str, cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}});
        json!({"spec": {"containers": [{"name": "c", "image": image, "resources": resources}]}})
    };
    it.put("user", "", pod("i", "1")).put("vpa", "resize", pod("j", "2"));
    let vpa = r#"vpa Update resize@2 {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}}}}}"#;
    assert_eq!(it.owners()[1], vpa);
}

#[test]
fn owners_of_elements_own_a_list_that_became_atomic() {
    let list = |rule: &str| {
        let parts =
            json!({"type": "array", "x-kubernetes-list-type": rule, "items": {"type": "string"}});
        LiveObject::custom(json!({"type": "object", "properties": {"parts": parts}}))
    };
    let mut it = list("set");
    it.apply("one", json!({"spec": {"parts": ["x"]}}));
    it.schemas = list("atomic").schemas;
    it.apply("two", json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!(it.owners()[0], r#"one Apply @1 {"f:spec":{"f:parts":{}}}"#);
}

/// Random configurations of a Pod, from few names and values so that they often collide.
fn any_pod() -> impl Strategy<Value = Value> {
    let text = || "[ab]";
    let port =
        (80..82i64, prop::option::of("TCP|UDP")).prop_map(|(port, protocol)| match protocol {
            Some(protocol) => json!({"containerPort": port, "protocol": protocol}),
            None => json!({"containerPort": port, "protocol": "TCP"}),
        });
    let ports = prop::collection::vec(port, 0..3).prop_map(|mut ports| {
        ports.dedup();
        if ports.first() == ports.last() && ports.len() > 1 {
            ports.pop();
        }
        ports
    });
    let container =
        (text(), ports).prop_map(|(image, ports)| json!({"image": image, "ports": ports}));
    let containers = prop::collection::btree_map(text(), container, 0..3).prop_map(|all| {
        let named = |(name, mut container): (String, Value)| {
            container["name"] = name.into();
            container
        };
        all.into_iter().map(named).collect::<Vec<Value>>()
    });
    let labels = prop::collection::btree_map(text(), text(), 0..3);
    (labels, containers).prop_map(|(labels, containers)| {
        json!({"metadata": {"labels": labels}, "spec": {"containers": containers}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: prop::test_runner::RngSeed::Fixed(38),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn applying_twice_has_the_same_result_as_applying_once(first in any_pod(), second in any_pod(), third in any_pod()) {
        let mut it = LiveObject::of("Pod");
        it.put("user", "", first);
        it.try_apply("one", "", second.clone(), Force::Yes).unwrap();
        it.try_apply("two", "", third, Force::Yes).unwrap();
        it.try_apply("one", "", second.clone(), Force::Yes).unwrap();
        let once = it.live.clone();
        it.apply("one", second.clone());
        prop_assert_eq!(&it.live, &once);
        // An applier owns all fields of its configuration.
        let pod = TypeRef::Type(types::of_kind("v1", "Pod").unwrap());
        let listed = apply::fields(pod, second.as_object().unwrap());
        let list = it.live(&["metadata", "managedFields"]);
        let owned = list.as_array().unwrap().iter().find(|it| it["manager"] == "one");
        let owned = owned.map(|it| Set::parse(&it["fieldsV1"]).unwrap()).unwrap_or_default();
        prop_assert!(listed.is_subset(&owned));
    }
}
