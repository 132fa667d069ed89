//! Defaults, validation and warnings of stateful sets.

use super::*;
use crate::validation::testing::{created, defaulted, lines, object, refusals, refusals_of_update};

fn spec() -> Value {
    json!({"serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": {
        "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

/// A plain set with one field of its spec set.
fn with(field: &str, value: Value) -> Value {
    let mut spec = spec();
    spec[field] = value;
    json!({"metadata": {"name": "a"}, "spec": spec})
}

fn claim(spec: Value) -> Value {
    json!({"metadata": {"name": "v"}, "spec": spec})
}

#[test]
fn the_defaults_of_a_stateful_set() {
    let set = created(&STRATEGY, with("volumeClaimTemplates", json!([claim(json!({}))])));
    let spec = &set["spec"];
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        spec["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}})
    );
    assert_eq!(
        spec["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    assert_eq!(
        spec["volumeClaimTemplates"][0],
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
            "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}})
    );
    assert_eq!(set["status"], json!({"replicas": 0, "availableReplicas": 0}));
}

#[test]
fn a_given_strategy_type_gets_no_rolling_update_parameters() {
    let strategy = |strategy: Value| {
        defaulted(&STRATEGY, with("updateStrategy", strategy))["spec"]["updateStrategy"].clone()
    };
    assert_eq!(strategy(json!({"type": "RollingUpdate"})), json!({"type": "RollingUpdate"}));
    assert_eq!(strategy(json!({"type": "OnDelete"})), json!({"type": "OnDelete"}));
}

#[test]
fn policies_and_strategies_are_validated() {
    let check = |field: &str, value: Value, expected: &[&str]| {
        assert_eq!(refusals(&STRATEGY, with(field, value)), expected);
    };
    check(
        "podManagementPolicy",
        json!("Odd"),
        &[
            r#"spec.podManagementPolicy: Invalid value: "Odd": must be 'OrderedReady' or 'Parallel'"#,
        ],
    );
    check(
        "updateStrategy",
        json!({"type": "Recreate"}),
        &[
            r#"spec.updateStrategy: Invalid value: {"Type":"Recreate","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'"#,
        ],
    );
    check(
        "updateStrategy",
        json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        &[
            r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#,
        ],
    );
    check(
        "updateStrategy",
        json!({"rollingUpdate": {"partition": -1, "maxUnavailable": "0%"}}),
        &[
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "0%": cannot be 0"#,
        ],
    );
    check(
        "persistentVolumeClaimRetentionPolicy",
        json!({"whenScaled": "Odd"}),
        &[
            r#"spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Odd": supported values: "Retain", "Delete""#,
        ],
    );
    check(
        "ordinals",
        json!({"start": -1}),
        &["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
    );
}

#[test]
fn claim_templates_are_validated_and_can_be_mounted() {
    let mut set = with(
        "volumeClaimTemplates",
        json!([claim(json!({"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}))]),
    );
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v"}]);
    assert_eq!(refusals(&STRATEGY, set), Vec::<String>::new());
    assert_eq!(
        refusals(&STRATEGY, with("volumeClaimTemplates", json!([claim(json!({}))]))),
        [
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ]
    );
}

#[test]
fn a_hostname_which_the_controller_replaces_is_not_validated() {
    let mut set = with("replicas", json!(1));
    set["spec"]["template"]["spec"]["hostname"] = "_".into();
    assert_eq!(refusals(&STRATEGY, set), Vec::<String>::new());
}

#[test]
fn fields_of_the_pod_identity_are_immutable() {
    let mut new = with("serviceName", json!("t"));
    new["spec"]["podManagementPolicy"] = "Parallel".into();
    assert_eq!(
        refusals_of_update(&STRATEGY, new, with("replicas", json!(1))),
        [
            r#"spec.serviceName: Invalid value: "t": field is immutable"#,
            r#"spec.podManagementPolicy: Invalid value: "Parallel": field is immutable"#,
        ]
    );
    let claims = with("volumeClaimTemplates", json!([claim(json!({}))]));
    let refusals = refusals_of_update(&STRATEGY, claims, with("replicas", json!(1)));
    assert!(
        refusals[0].starts_with(
            r#"spec.volumeClaimTemplates: Invalid value: [{"name":"v","Spec":{"AccessModes":null,"#
        ),
        "{refusals:?}"
    );
}

#[test]
fn the_template_is_not_validated_if_the_stored_set_is_invalid() {
    let mut old = with("replicas", json!(1));
    old["spec"]["template"]["spec"]["containers"][0]["image"] = "".into();
    let mut new = old.clone();
    new["spec"]["replicas"] = 2.into();
    assert_eq!(refusals(&STRATEGY, new.clone()).len(), 1);
    assert_eq!(refusals_of_update(&STRATEGY, new, old), Vec::<String>::new());
}

#[test]
fn inconsistent_status_counters_are_refused() {
    let mut errors = ErrorList::new();
    let status = object(json!({"status": {"replicas": 1, "currentReplicas": 2,
        "availableReplicas": 1}}));
    validate_status(&status, &Object::default(), &mut errors);
    assert_eq!(
        lines(&errors),
        [
            "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
        ]
    );
}

#[test]
fn fractional_storage_and_a_negative_history_limit_cause_warnings() {
    let claims = json!([claim(json!({"resources": {"requests": {"storage": "500m"}}}))]);
    let mut set = with("volumeClaimTemplates", claims);
    set["spec"]["revisionHistoryLimit"] = (-1).into();
    assert_eq!(
        (STRATEGY.warnings)(&object(set)),
        [
            r#"spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer"#,
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ]
    );
}
