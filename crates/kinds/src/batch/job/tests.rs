//! Defaults, validation and columns of jobs.

use super::*;
use crate::validation::testing::{created, defaulted, object, refusals, refusals_of_update};

fn job(spec: Value) -> Value {
    let mut job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": {"spec":
        {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        job["spec"][key] = value.clone();
    }
    job
}

fn check(spec: Value, expected: &[&str]) {
    assert_eq!(refusals(&STRATEGY, job(spec)), expected);
}

fn check_update(new: Value, old: Value, expected: &[&str]) {
    let generated = created(&STRATEGY, job(json!({})));
    let with_selector = |spec| {
        let mut job = job(spec);
        job["spec"]["selector"] = generated["spec"]["selector"].clone();
        job["spec"]["template"]["metadata"] = generated["spec"]["template"]["metadata"].clone();
        job
    };
    assert_eq!(refusals_of_update(&STRATEGY, with_selector(new), with_selector(old)), expected);
}

#[test]
fn a_job_selects_its_pods_by_its_uid() {
    let job = created(&STRATEGY, job(json!({})));
    let labels = json!({"batch.kubernetes.io/controller-uid": "u", "controller-uid": "u",
        "batch.kubernetes.io/job-name": "a", "job-name": "a"});
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(
        job["spec"]["selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
    );
}

#[test]
fn a_manual_selector_adds_no_labels() {
    let job = created(&STRATEGY, job(json!({"manualSelector": true})));
    assert_eq!(job["spec"].get("selector"), None);
    assert_eq!(job["metadata"].get("labels"), None);
}

#[test]
fn completions_and_parallelism_default_to_one() {
    let counts = |spec| {
        let job = defaulted(&STRATEGY, job(spec));
        (job["spec"]["completions"].clone(), job["spec"]["parallelism"].clone())
    };
    assert_eq!(counts(json!({})), (json!(1), json!(1)));
    assert_eq!(counts(json!({"parallelism": 3})), (Value::Null, json!(3)));
    assert_eq!(counts(json!({"completions": 3})), (json!(3), json!(1)));
    let indexed = defaulted(&STRATEGY, job(json!({"backoffLimitPerIndex": 1})));
    assert_eq!(indexed["spec"]["backoffLimit"], i32::MAX);
}

#[test]
fn a_wrong_job_name_label_is_refused() {
    let mut job = job(json!({}));
    job["spec"]["template"]["metadata"] = json!({"labels": {"job-name": "b"}});
    assert_eq!(
        refusals(&STRATEGY, job),
        [
            r#"spec.template.metadata.labels[job-name]: Invalid value: {"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"a","controller-uid":"u","job-name":"b"}: must be 'a'"#
        ]
    );
}

#[test]
fn a_custom_selector_requires_manual_selector() {
    let mut job = job(json!({"selector": {"matchLabels": {"x": "y"}}}));
    job["spec"]["template"]["metadata"] = json!({"labels": {"x": "y"}});
    assert_eq!(
        refusals(&STRATEGY, job),
        [
            r#"spec.selector: Invalid value: {"matchLabels":{"batch.kubernetes.io/controller-uid":"u","x":"y"}}: `selector` not auto-generated"#
        ]
    );
}

#[test]
fn restart_policy_always_is_refused() {
    let mut job = job(json!({}));
    job["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    assert_eq!(
        refusals(&STRATEGY, job),
        [r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#]
    );
}

#[test]
fn index_fields_need_an_indexed_job() {
    check(
        json!({"maxFailedIndexes": 1, "successPolicy": {"rules": [{"succeededCount": 1}]}}),
        &[
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            r#"spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires indexed completion mode"#,
        ],
    );
    check(
        json!({"completionMode": "Odd"}),
        &[
            r#"spec.completionMode: Unsupported value: "Odd": supported values: "NonIndexed", "Indexed""#,
        ],
    );
}

#[test]
fn indexed_jobs_have_limits() {
    check(
        json!({"completionMode": "Indexed", "parallelism": 100_001}),
        &[
            "spec.completions: Required value: when completion mode is Indexed",
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        ],
    );
    check(
        json!({"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}),
        &[
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
        ],
    );
}

#[test]
fn managed_by_must_be_domain_prefixed() {
    check(json!({"managedBy": "example.com/mine"}), &[]);
    check(
        json!({"managedBy": "mine"}),
        &[
            r#"spec.managedBy: Invalid value: "mine": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ],
    );
}

#[test]
fn a_pod_failure_policy_requires_replacement_policy_failed() {
    let policy = json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]});
    check(
        json!({"podFailurePolicy": policy, "podReplacementPolicy": "TerminatingOrFailed"}),
        &[
            r#"spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed""#,
        ],
    );
}

#[test]
fn completions_are_immutable_but_parallelism_is_not() {
    check_update(json!({"parallelism": 3}), json!({"parallelism": 2}), &[]);
    check_update(
        json!({"completions": 5, "backoffLimit": -1}),
        json!({"completions": 1}),
        &[
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.completions: Invalid value: 5: field is immutable",
        ],
    );
}

#[test]
fn completions_of_an_indexed_job_change_together_with_parallelism() {
    let indexed = |completions: i64, parallelism: i64| json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
    check_update(indexed(3, 3), indexed(2, 2), &[]);
    check_update(
        indexed(3, 2),
        indexed(2, 2),
        &[
            "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
        ],
    );
}

#[test]
fn scheduling_fields_of_the_template_may_change_while_suspended() {
    let template = |pod: Value| {
        let mut template = job(json!({}))["spec"]["template"].clone();
        for (key, value) in pod.as_object().into_iter().flatten() {
            template["spec"][key] = value.clone();
        }
        json!({"suspend": true, "template": template})
    };
    check_update(template(json!({"nodeSelector": {"a": "b"}})), template(json!({})), &[]);
    let old = created(&STRATEGY, job(template(json!({}))));
    let mut new = old.clone();
    new["spec"]["template"]["spec"]["dnsPolicy"] = "Default".into();
    let refused = refusals_of_update(&STRATEGY, new.clone(), old.clone());
    assert!(refused[0].starts_with(r#"spec.template.spec: Invalid value: {"Volumes":null,"#));
    let mut running = old;
    running["spec"]["suspend"] = false.into();
    let refused = refusals_of_update(&STRATEGY, new, running);
    assert!(refused[0].starts_with(
        r#"spec.template: Invalid value: {"labels":{"batch.kubernetes.io/controller-uid":"u","#
    ));
}

#[test]
fn the_table_shows_status_completions_and_duration() {
    let shown = |status: Value, spec: Value| {
        let mut job = job(spec);
        job["status"] = status;
        let cells = cells(&object(job), &Now { unix_seconds: 1_704_067_210 });
        Value::from(cells[1..4].to_vec())
    };
    assert_eq!(shown(json!({}), json!({"completions": 2})), json!(["Running", "0/2", ""]));
    assert_eq!(
        shown(
            json!({"startTime": "2024-01-01T00:00:00Z", "succeeded": 1}),
            json!({"parallelism": 3})
        ),
        json!(["Running", "1/1 of 3", "10s"])
    );
    assert_eq!(
        shown(
            json!({"startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:01:00Z",
                "succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}),
            json!({"completions": 1})
        ),
        json!(["Complete", "1/1", "60s"])
    );
}
