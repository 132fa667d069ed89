//! Objects after normalization; the expectations were checked against Go itself.

use serde_json::json;

use super::*;
use crate::find;

/// Normalizes `sent` as that type and compares; no field may be unknown.
fn check(ty: &str, sent: Value, expected: &Value) {
    let (value, unknown) = normalized(ty, sent).unwrap();
    assert_eq!(&value, expected);
    assert!(unknown.is_empty(), "unknown: {unknown:?}");
}

fn refused(ty: &str, sent: Value, message: &str) {
    let error = normalized(ty, sent).unwrap_err();
    assert_eq!(error.to_string(), message);
}

fn normalized(ty: &str, mut value: Value) -> Result<(Value, Vec<String>), Error> {
    let mut unknown = Vec::new();
    normalize(find(ty).unwrap(), &mut value, &mut |path| unknown.push(path))?;
    Ok((value, unknown))
}

#[test]
fn structs_are_written_even_when_empty() {
    check(
        "core/v1.Pod",
        json!({"spec": {"containers": [{"name": "a"}]}}),
        &json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {}}),
    );
    check(
        "core/v1.Service",
        json!({"kind": "Service", "apiVersion": "v1"}),
        &json!({"kind": "Service", "apiVersion": "v1", "metadata": {}, "spec": {},
            "status": {"loadBalancer": {}}}),
    );
}

#[test]
fn unset_structs_are_written_with_their_zero_fields() {
    check(
        "core/v1.NodeStatus",
        json!({}),
        &json!({
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "",
                "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "",
                "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""},
        }),
    );
}

#[test]
fn fields_without_a_zero_value_are_null() {
    check(
        "core/v1.Event",
        json!({"count": 0}),
        &json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
            "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
            "reportingInstance": ""}),
    );
    check(
        "apiextensions/v1.CustomResourceDefinitionStatus",
        json!({"conditions": null}),
        &json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null}),
    );
    check("rbac/v1.Role", json!({"rules": []}), &json!({"metadata": {}, "rules": null}));
}

#[test]
fn zeros_are_dropped_unless_they_are_behind_pointers() {
    check(
        "apps/v1.DeploymentSpec",
        json!({"replicas": 0, "paused": false, "minReadySeconds": 0, "strategy": {"type": ""},
            "template": {"metadata": {"labels": {}}, "spec": {"containers": []}},
            "selector": {"matchExpressions": []}, "revisionHistoryLimit": null}),
        &json!({"replicas": 0, "strategy": {}, "selector": {},
            "template": {"metadata": {}, "spec": {"containers": null}}}),
    );
}

#[test]
fn nulls_in_lists_and_maps_become_zeros() {
    check(
        "core/v1.PodSpec",
        json!({"containers": [null], "nodeSelector": {"a": null}, "imagePullSecrets": [null]}),
        &json!({"containers": [{"name": "", "resources": {}}], "nodeSelector": {"a": ""},
            "imagePullSecrets": [{}]}),
    );
}

#[test]
fn quantities_times_and_bytes_get_their_canonical_form() {
    check(
        "core/v1.ResourceRequirements",
        json!({"limits": {"cpu": 0.5, "memory": "1024Mi", "x": "1000m"}}),
        &json!({"limits": {"cpu": "500m", "memory": "1Gi", "x": "1"}}),
    );
    check(
        "meta/v1.ObjectMeta",
        json!({"creationTimestamp": "2026-01-02T03:04:05.6+01:00", "deletionTimestamp": "0001-01-01T00:00:00Z"}),
        &json!({"creationTimestamp": "2026-01-02T02:04:05Z", "deletionTimestamp": null}),
    );
    check(
        "coordination/v1.LeaseSpec",
        json!({"renewTime": "2026-01-02T03:04:05.600000+01:00"}),
        &json!({"renewTime": "2026-01-02T02:04:05.600000Z"}),
    );
    check(
        "core/v1.Secret",
        json!({"data": {"a": "YWJj\nZGVm", "b": ""}}),
        &json!({"metadata": {}, "data": {"a": "YWJjZGVm", "b": ""}}),
    );
    check(
        "apiextensions/v1.JSONSchemaProps",
        json!({"maximum": 3.0, "minimum": 0.5}),
        &json!({"maximum": 3, "minimum": 0.5}),
    );
}

#[test]
fn a_target_port_is_a_number_or_a_name() {
    check(
        "core/v1.ServiceSpec",
        json!({"ports": [{"port": 1, "targetPort": "http"}, {"port": 2}]}),
        &json!({"ports": [{"port": 1, "targetPort": "http"}, {"port": 2, "targetPort": 0}]}),
    );
}

#[test]
fn raw_values_are_unchanged() {
    let any = json!({"a": null, "b": [0, ""], "c": {}});
    check(
        "apps/v1.ControllerRevision",
        json!({"revision": 0, "data": any}),
        &json!({"metadata": {}, "revision": 0, "data": any}),
    );
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let sent = json!({
        "Metadata": {},
        "spec": {"replica": 1, "template": {"spec": {"containers": [
            {"name": "a", "ports": [{"containerPort": 1, "port": 1}]}
        ]}}},
    });
    let (value, unknown) = normalized("apps/v1.Deployment", sent).unwrap();
    assert_eq!(
        unknown,
        ["Metadata", "spec.replica", "spec.template.spec.containers[0].ports[0].port"]
    );
    assert_eq!(
        value["spec"]["template"]["spec"]["containers"][0],
        json!({"name": "a", "ports": [{"containerPort": 1}], "resources": {}})
    );
    assert!(value.get("Metadata").is_none());
}

#[test]
fn unknown_fields_of_schemas_below_items_are_not_reported() {
    let sent = json!({"odd": 1, "items": {"odd": 1, "type": "string"}, "additionalProperties": true,
        "properties": {"a": {"odd": 1, "items": [{}]}}});
    let (value, unknown) = normalized("apiextensions/v1.JSONSchemaProps", sent).unwrap();
    assert_eq!(unknown, ["odd", "properties.a.odd"]);
    let expected = json!({"items": {"type": "string"}, "additionalProperties": true,
        "properties": {"a": {"items": [{}]}}});
    assert_eq!(value, expected);
}

#[test]
fn a_wrong_type_is_reported_in_the_words_of_go() {
    refused(
        "apps/v1.Deployment",
        json!({"spec": {"replicas": "3"}}),
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    refused(
        "core/v1.ConfigMap",
        json!({"data": {"k": 1}}),
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    );
    refused(
        "core/v1.ConfigMap",
        json!({"data": [1, 2]}),
        "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
    );
    refused(
        "coordination/v1.Lease",
        json!({"metadata": {"resourceVersion": 5}}),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion of type string",
    );
    refused("core/v1.Pod", json!([]), "json: cannot unmarshal array into Go value of type v1.Pod");
}

#[test]
fn errors_name_go_types_and_embedded_structs() {
    refused(
        "core/v1.Pod",
        json!({"spec": {"containers": {}}}),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    );
    refused(
        "core/v1.Container",
        json!({"ports": [{"protocol": 1}]}),
        "json: cannot unmarshal number into Go struct field ContainerPort.ports.protocol of type v1.Protocol",
    );
    refused(
        "core/v1.PersistentVolumeClaimSpec",
        json!({"accessModes": [true]}),
        "json: cannot unmarshal bool into Go struct field PersistentVolumeClaimSpec.accessModes of type v1.PersistentVolumeAccessMode",
    );
    refused(
        "core/v1.PodSpec",
        json!({"volumes": [{"emptyDir": "x"}]}),
        "json: cannot unmarshal string into Go struct field Volume.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
    );
    refused(
        "core/v1.Pod",
        json!({"kind": 1}),
        "json: cannot unmarshal number into Go struct field Pod.TypeMeta.kind of type string",
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    for (sent, shown) in [(json!(2_147_483_648_i64), "2147483648"), (json!(1.5), "1.5")] {
        let place = "Go struct field ServicePort.targetPort of type int32";
        let message = format!("json: cannot unmarshal number {shown} into {place}");
        refused("core/v1.ServicePort", json!({"targetPort": sent}), &message);
    }
    refused(
        "meta/v1.ObjectMeta",
        json!({"generation": 9_223_372_036_854_775_808_u64}),
        "json: cannot unmarshal number 9223372036854775808 into Go struct field ObjectMeta.generation of type int64",
    );
}

#[test]
fn malformed_values_are_reported_without_a_path() {
    refused(
        "core/v1.ResourceRequirements",
        json!({"limits": {"cpu": "x"}}),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    refused("core/v1.Secret", json!({"data": {"a": "abc"}}), "illegal base64 data at input byte 0");
    refused(
        "apiextensions/v1.JSONSchemaProps",
        json!({"additionalProperties": "x"}),
        "boolean or JSON schema expected",
    );
}

#[test]
fn the_normalization_of_empty_objects_is_idempotent() {
    for ty in crate::all() {
        let (once, _) = normalized(ty.name(), json!({})).unwrap();
        let (twice, _) = normalized(ty.name(), once.clone()).unwrap();
        assert_eq!(once, twice, "{}", ty.name());
    }
}

#[test]
fn bytes_may_be_sent_as_numbers_and_are_never_null() {
    check(
        "core/v1.Secret",
        json!({"data": {"a": [104, 105], "b": [], "c": null}}),
        &json!({"metadata": {}, "data": {"a": "aGk=", "b": "", "c": ""}}),
    );
}
