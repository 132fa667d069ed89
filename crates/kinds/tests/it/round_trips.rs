//! Random objects lose nothing when they are encoded as protobuf or YAML and decoded again, or
//! converted to another version of their kind and back.

use crate::random;
use machinery::codec::yaml;
use machinery::{Object, Value, json};
use types::protobuf::{decode, write_message};
use types::{Type, normalize, of_kind};

fn normalized(ty: &'static Type, value: &Value) -> Value {
    let mut value = value.clone();
    normalize(ty, &mut value, &mut |path| panic!("{} has no {path}", ty.name())).unwrap();
    value
}

#[test]
fn encoding_and_decoding_preserves_objects_of_every_type() {
    for (seed, ty) in (1..).zip(types::all()) {
        for round in 0..4 {
            let object = normalized(ty, &random::object(ty, seed * 31 + round));
            let mut bytes = Vec::new();
            write_message(ty, object.to_string().as_bytes(), &mut bytes).unwrap();
            let back = decode(ty, &bytes).unwrap();
            assert_eq!(normalized(ty, &Value::Object(back)), object, "{}", ty.name());
            let text = yaml::encode(&object);
            let back = yaml::decode(text.as_bytes()).unwrap().value;
            assert_eq!(back, object, "{} as YAML:\n{text}", ty.name());
        }
    }
}

/// Makes a random object valid enough to be converted: a metric gets one source, which its type
/// names, a CRD gets a scope and versions.
fn make_convertible(object: &mut Object) {
    const SOURCES: [(&str, &str); 5] = [
        ("Object", "object"),
        ("Pods", "pods"),
        ("Resource", "resource"),
        ("ContainerResource", "containerResource"),
        ("External", "external"),
    ];
    if object.str_at(&["spec", "scope"]).is_empty()
        && let Some(scope) = object.get_mut(&["spec", "scope"])
    {
        *scope = "Cluster".into();
    }
    if let Some(versions @ Value::Null) = object.get_mut(&["spec", "versions"]) {
        *versions = json!([{"name": "v1", "served": true, "storage": true}]);
    }
    if let Some(webhook) = object.get_mut(&["spec", "conversion", "webhook"]) {
        webhook["conversionReviewVersions"] = json!(["v1"]);
    }
    for (part, list) in [("spec", "metrics"), ("status", "currentMetrics")] {
        let Some(Value::Array(metrics)) = object.get_mut(&[part, list]) else { continue };
        metrics.retain_mut(|metric| {
            let found = SOURCES.iter().find(|(_, member)| metric.get(member).is_some());
            let Some((name, member)) = found else { return false };
            let mut source = metric[member].take();
            let whole = matches!(*name, "Object" | "External");
            let measured = if part == "spec" { "target" } else { "current" };
            source[measured] = match (part, whole) {
                ("spec", true) => json!({"type": "Value", "value": "7"}),
                ("spec", false) => json!({"type": "AverageValue", "averageValue": "3"}),
                (_, true) => json!({"value": "7", "averageValue": "3"}),
                (_, false) => json!({"averageValue": "3"}),
            };
            *metric = json!({"type": name, (*member): source});
            true
        });
    }
}

#[test]
fn conversion_to_each_version_and_back_preserves_objects_of_every_kind() {
    for (seed, resource) in (1..).zip(kinds::table::builtin()) {
        let Some(convert) = resource.strategy.convert else { continue };
        let storage = resource.api_version(resource.storage_version());
        let ty = of_kind(&storage, &resource.kind).unwrap();
        for version in resource.versions.iter().map(|it| resource.api_version(it)) {
            for round in 0..50 {
                let object = normalized(ty, &random::object(ty, seed * 131 + round));
                let mut object = Object::from_value(object).unwrap();
                object.set_type(&storage, &resource.kind);
                make_convertible(&mut object);
                // Defaults are set before an object is converted to any version.
                (resource.strategy.defaults)(&mut object);
                let mut back = object.clone();
                convert(&mut back, &storage, &version);
                convert(&mut back, &version, &storage);
                let back = normalized(ty, &back.into_value());
                let object = normalized(ty, &object.into_value());
                assert_eq!(back, object, "{} through {version}", resource.kind);
            }
        }
    }
}
