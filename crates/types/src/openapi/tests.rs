//! The schemas are complete, and equal those of Kubernetes.

use super::*;
use crate::all;

fn schema_of(root: &str, name: &str) -> Value {
    schemas([crate::find(root).unwrap()], &[])[name].clone()
}

/// A property without its description.
fn check(root: &str, property: &str, expect: &Value) {
    let ty = crate::find(root).unwrap();
    let mut found = schema_of(root, &ty.openapi_name())["properties"][property].clone();
    found.as_object_mut().unwrap().remove("description");
    assert_eq!(&found, expect, "{root} {property}");
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|it| references(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

#[test]
fn every_reference_has_a_schema() {
    let schemas = schemas(all(), &[]);
    let mut found = BTreeSet::new();
    schemas.values().for_each(|it| references(it, &mut found));
    for reference in found {
        assert!(schemas.contains_key(reference.strip_prefix(SCHEMAS).unwrap()), "{reference}");
    }
    assert!(schemas.len() > all().len());
}

#[test]
fn a_schema_includes_its_references_and_nothing_else() {
    let schemas = schemas([crate::find("core/v1.ConfigMap").unwrap()], &[]);
    let names: Vec<&str> =
        schemas.keys().map(|it| it.rsplit_once('.').map_or("", |(_, name)| name)).collect();
    assert_eq!(
        names,
        [
            "ConfigMap",
            "FieldsV1",
            "Initializer",
            "Initializers",
            "ListMeta",
            "ManagedFieldsEntry",
            "ObjectMeta",
            "OwnerReference",
            "Patch",
            "Status",
            "StatusCause",
            "StatusDetails",
            "Time"
        ]
    );
}

#[test]
fn lists_have_their_merge_strategies() {
    check(
        "core/v1.Container",
        "ports",
        &json!({
            "type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"},
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            "x-kubernetes-list-type": "map", "x-kubernetes-patch-merge-key": "containerPort",
            "x-kubernetes-patch-strategy": "merge",
        }),
    );
    check(
        "meta/v1.ObjectMeta",
        "finalizers",
        &json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge"}),
    );
}

#[test]
fn a_reference_with_siblings_is_wrapped_in_all_of() {
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    check("core/v1.ConfigMap", "metadata", &json!({"allOf": [{"$ref": meta}], "default": {}}));
    let object = "#/components/schemas/io.k8s.api.core.v1.ObjectReference";
    check(
        "core/v1.PersistentVolumeSpec",
        "claimRef",
        &json!({"allOf": [{"$ref": object}], "x-kubernetes-map-type": "granular"}),
    );
}

#[test]
fn defaults_are_the_declared_ones_or_those_of_go() {
    let protocol = json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]});
    check("core/v1.ContainerPort", "protocol", &protocol);
    let number = json!({"type": "integer", "format": "int32", "default": 0});
    check("core/v1.ContainerPort", "containerPort", &number);
    check("core/v1.ContainerPort", "hostPort", &json!({"type": "integer", "format": "int32"}));
}

#[test]
fn maps_have_the_schema_of_their_values() {
    let quantity = "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity";
    let limits = json!({"type": "object", "additionalProperties": {"$ref": quantity}});
    check("core/v1.ResourceRequirements", "limits", &limits);
    let bytes =
        json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}});
    check("core/v1.Secret", "data", &bytes);
}

#[test]
fn kinds_have_their_group_versions() {
    let pod = schema_of("core/v1.Pod", "io.k8s.api.core.v1.Pod");
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "Pod", "version": "v1"}])
    );
    let apps = [GroupVersion::new("apps", "v1")];
    let schemas = schemas([crate::find("meta/v1.DeleteOptions").unwrap()], &apps);
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "DeleteOptions", "version": "v1"},
            {"group": "apps", "kind": "DeleteOptions", "version": "v1"}])
    );
}

#[test]
fn unions_and_atomic_types_are_marked() {
    let profile = schema_of("core/v1.SeccompProfile", "io.k8s.api.core.v1.SeccompProfile");
    assert_eq!(
        profile["x-kubernetes-unions"],
        json!([{"discriminator": "type",
            "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}])
    );
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";
    assert_eq!(schema_of("meta/v1.LabelSelector", name)["x-kubernetes-map-type"], "atomic");
}

#[test]
fn lists_of_kinds_have_generated_descriptions() {
    let list = schema_of("core/v1.PodList", "io.k8s.api.core.v1.PodList");
    assert_eq!(list["description"], "PodList is a list of Pod");
    assert_eq!(list["required"], json!(["items"]));
    assert_eq!(list["properties"]["items"]["description"], "List of pods");
    for (name, description) in [
        ("networking/v1.IngressList", "List of ingresses"),
        ("networking/v1.NetworkPolicyList", "List of networkpolicies"),
        ("core/v1.EndpointsList", "List of endpoints"),
    ] {
        let openapi_name = crate::find(name).unwrap().openapi_name();
        let items = &schema_of(name, &openapi_name)["properties"]["items"];
        assert_eq!(items["description"], description);
    }
}

#[test]
fn common_fields_have_long_descriptions() {
    let descriptions = common_descriptions();
    assert!(
        descriptions.api_version.len() > 60
            && descriptions.kind.len() > 60
            && descriptions.metadata.len() > 60
    );
}

#[test]
fn type_fields_of_embedded_resources_have_texts_of_their_own() {
    let descriptions = common_descriptions();
    let conventions =
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    assert_eq!(
        descriptions.embedded_api_version,
        format!(
            "apiVersion defines the versioned schema of this representation of an object. More info: {conventions}#resources"
        )
    );
    assert_eq!(
        descriptions.embedded_kind,
        format!(
            "kind is a string value representing the type of this object. In CamelCase. More info: {conventions}#types-kinds"
        )
    );
}

#[test]
fn enumerations_list_their_values() {
    let policy = json!({"type": "string", "enum": ["Always", "IfNotPresent", "Never"]});
    check("core/v1.Container", "imagePullPolicy", &policy);
    // The items of a list have the enumeration, and its type may be in another package.
    let items =
        schema_of("networking/v1.NetworkPolicy", "io.k8s.api.networking.v1.NetworkPolicySpec");
    assert_eq!(items["properties"]["policyTypes"]["items"]["enum"], json!(["Egress", "Ingress"]));
    check(
        "networking/v1.NetworkPolicyPort",
        "protocol",
        &json!({"type": "string", "enum": ["SCTP", "TCP", "UDP"]}),
    );
    // The types of conditions are not an enumeration.
    check("core/v1.PodCondition", "type", &json!({"type": "string", "default": ""}));
}
