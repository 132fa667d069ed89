//! `apiextensions.k8s.io/v1beta1`: CRDs as older manifests have them.
//!
//! Schema, subresources and columns are fields of each version in v1, and may be fields of the spec
//! in v1beta1. The conversion to v1 copies them to every version; the conversion back moves them to
//! the spec if all versions agree, so that nothing is lost either way.

use machinery::fields::{default_text, default_value, list_mut, maps_mut};
use machinery::{Map, Object, Value, json};

const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";

/// The fields that may be in the spec or in each version: (name in the spec, name in a version).
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The maximum number of bytes that are copied from the spec to the versions, 1.5 MiB. A CRD with
/// more is too large to be stored, and is refused for that.
const MAX_COPIED_BYTES: usize = 3 << 19;

/// Converts a CRD; versions are named by their `apiVersion`.
pub(super) fn convert(object: &mut Object, from: &str, to: &str) {
    match (from, to) {
        (V1BETA1, V1) => to_v1(object.map_at(&["spec"])),
        (V1, V1BETA1) => to_v1beta1(object.map_at(&["spec"])),
        _ => {}
    }
}

fn to_v1(spec: &mut Map<String, Value>) {
    // The defaults of v1beta1 that v1 does not have.
    default_text(spec, "scope", "Namespaced");
    default_value(spec, "preserveUnknownFields", true.into());
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }

    let version = spec.remove("version");
    let versions = list_mut(spec, "versions");
    if let Some(name) = version.filter(|it| versions.is_empty() && *it != "") {
        versions.push(json!({"name": name, "served": true, "storage": true}));
    }
    let mut bytes_left = MAX_COPIED_BYTES;
    for (top, in_version) in SHARED {
        let Some(shared) = spec.remove(top).filter(|it| !it.is_null()) else { continue };
        let size = shared.to_string().len();
        for version in maps_mut(spec, "versions") {
            if bytes_left == 0 {
                break;
            }
            bytes_left = bytes_left.saturating_sub(size);
            version.insert(in_version.to_owned(), shared.clone());
        }
    }
    for version in maps_mut(spec, "versions") {
        rename_paths(version, "JSONPath", "jsonPath");
    }
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
        webhook_to_v1(conversion);
    }
}

fn webhook_to_v1(conversion: &mut Map<String, Value>) {
    let config = conversion.remove("webhookClientConfig").filter(|it| !it.is_null());
    let mut reviews = conversion.remove("conversionReviewVersions").filter(|it| !it.is_null());
    let is_webhook = conversion.get("strategy").is_some_and(|it| it == "Webhook");
    if is_webhook && reviews.as_ref().and_then(Value::as_array).is_none_or(Vec::is_empty) {
        reviews = Some(json!(["v1beta1"]));
    }
    let mut webhook = Map::new();
    webhook.extend(config.map(|it| ("clientConfig".to_owned(), it)));
    webhook.extend(reviews.map(|it| ("conversionReviewVersions".to_owned(), it)));
    if !webhook.is_empty() {
        conversion.insert("webhook".to_owned(), Value::Object(webhook));
    }
}

fn to_v1beta1(spec: &mut Map<String, Value>) {
    default_value(spec, "preserveUnknownFields", false.into());
    for version in maps_mut(spec, "versions") {
        rename_paths(version, "jsonPath", "JSONPath");
    }
    let name = list_mut(spec, "versions").first().and_then(|it| it.get("name").cloned());
    spec.extend(name.map(|it| ("version".to_owned(), it)));
    for (top, in_version) in SHARED {
        let versions = list_mut(spec, "versions");
        let Some(first) = versions.first().and_then(|it| it.get(in_version).cloned()) else {
            continue;
        };
        if versions.iter().any(|it| it.get(in_version) != Some(&first)) {
            continue;
        }
        for version in maps_mut(spec, "versions") {
            version.remove(in_version);
        }
        spec.insert(top.to_owned(), first);
    }
    if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
        && let Some(Value::Object(mut webhook)) = conversion.remove("webhook")
    {
        let config = webhook.remove("clientConfig");
        let reviews = webhook.remove("conversionReviewVersions");
        conversion.extend(config.map(|it| ("webhookClientConfig".to_owned(), it)));
        conversion.extend(reviews.map(|it| ("conversionReviewVersions".to_owned(), it)));
    }
}

fn rename_paths(version: &mut Map<String, Value>, from: &str, to: &str) {
    for column in maps_mut(version, "additionalPrinterColumns") {
        if let Some(path) = column.remove(from) {
            column.insert(to.to_owned(), path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;

    fn converted(spec: &Value, from: &str, to: &str) -> Value {
        let mut crd = object(json!({"spec": spec}));
        convert(&mut crd, from, to);
        crd.get(&["spec"]).cloned().unwrap()
    }

    #[test]
    fn a_manifest_without_a_schema_keeps_unknown_fields() {
        let spec = json!({"group": "samplecrd.k8s.io", "version": "v1",
            "names": {"kind": "Network", "plural": "networks"}});
        assert_eq!(
            converted(&spec, V1BETA1, V1),
            json!({"group": "samplecrd.k8s.io", "scope": "Namespaced",
                "preserveUnknownFields": true, "names": {"kind": "Network", "plural": "networks"},
                "versions": [{"name": "v1", "served": true, "storage": true}]})
        );
    }

    #[test]
    fn a_large_schema_is_not_copied_to_very_many_versions() {
        let versions: Value = (0..1000).map(|n| json!({"name": format!("v{n}")})).collect();
        let schema = json!({"openAPIV3Schema": {"description": "x".repeat(10_000)}});
        let spec = json!({"versions": versions, "validation": schema});
        let size = converted(&spec, V1BETA1, V1).to_string().len();
        assert!((MAX_COPIED_BYTES..MAX_COPIED_BYTES + 100_000).contains(&size), "{size}");
    }

    #[test]
    fn top_level_fields_are_copied_to_versions_and_back() {
        let spec = json!({"scope": "Cluster", "version": "v2", "preserveUnknownFields": false,
            "validation": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".a"}],
            "versions": [{"name": "v2", "served": true, "storage": true},
                {"name": "v1", "served": true, "storage": false}],
            "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x"},
                "conversionReviewVersions": ["v1"]}});
        let v1 = converted(&spec, V1BETA1, V1);
        for version in v1["versions"].as_array().unwrap() {
            assert_eq!(version["schema"], json!({"openAPIV3Schema": {"type": "object"}}));
            assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".a");
        }
        assert_eq!(
            v1["conversion"],
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"},
                "conversionReviewVersions": ["v1"]}})
        );
        assert_eq!(converted(&v1, V1, V1BETA1), spec);
    }

    #[test]
    fn versions_that_differ_keep_their_fields() {
        let spec = json!({"versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v2", "schema": {"openAPIV3Schema": {"type": "object", "description": "x"}}}]});
        let old = converted(&spec, V1, V1BETA1);
        assert!(old.get("validation").is_none());
        assert_eq!(old["versions"][1]["schema"]["openAPIV3Schema"]["description"], "x");
    }
}
