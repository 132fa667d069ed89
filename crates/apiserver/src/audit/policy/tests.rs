//! Tests of policies: errors of files, and which rule matches.

use http::Method;

use super::*;
use crate::request::{Query, RequestInfo};

/// A policy with these rules, in YAML.
fn policy(rules: &str) -> Result<Policy, String> {
    Policy::parse(format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}").as_bytes())
}

/// The level of a GET of `path` by alice, who is in the group dev.
fn level(rules: &str, path: &str) -> Level {
    level_of(rules, &Method::GET, path)
}

fn level_of(rules: &str, method: &Method, path: &str) -> Level {
    let alice = User::authenticated("alice", "", vec!["dev".to_owned()]);
    let info = RequestInfo::parse(method, path, &Query::default()).unwrap();
    let attributes = Attributes::new(&alice, &info);
    let request = AuditAttributes { attributes, is_authenticated: true };
    policy(rules).unwrap().evaluate(&request).level
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = "- level: None\n  verbs: [get]\n- level: Request\n- level: Metadata";
    assert_eq!(level(rules, "/api/v1/namespaces/default/pods/a"), Level::None);
    assert_eq!(level(rules, "/api/v1/pods"), Level::Request);
    assert_eq!(level("- level: Metadata\n  verbs: [watch]", "/api/v1/pods"), Level::None);
}

#[test]
fn rules_match_users_and_groups() {
    let path = "/api/v1/pods";
    assert_eq!(level("- {level: Metadata, users: [alice]}", path), Level::Metadata);
    assert_eq!(level("- {level: Metadata, users: [bob]}", path), Level::None);
    assert_eq!(level("- {level: Metadata, userGroups: [ops, dev]}", path), Level::Metadata);
    assert_eq!(level("- {level: Metadata, users: [alice], userGroups: [ops]}", path), Level::None);
}

#[test]
fn a_rule_with_users_does_not_match_a_failed_authentication() {
    let nobody = User::default();
    let info = RequestInfo::parse(&Method::GET, "/api", &Query::default()).unwrap();
    let attributes = Attributes::new(&nobody, &info);
    let request = AuditAttributes { attributes, is_authenticated: false };
    let level = |rules: &str| policy(rules).unwrap().evaluate(&request).level;
    assert_eq!(level("- {level: Metadata, users: ['']}"), Level::None);
    assert_eq!(level("- {level: Metadata}"), Level::Metadata);
}

#[test]
fn rules_match_resources_and_subresources() {
    let pod = "/api/v1/namespaces/default/pods/a";
    let log = "/api/v1/namespaces/default/pods/a/log";
    let matches = |resource: &str, path: &str| {
        let rule =
            format!("- level: Metadata\n  resources: [{{group: '', resources: ['{resource}']}}]");
        level(&rule, path) == Level::Metadata
    };
    for (resource, of_pod, of_log) in [
        ("pods", true, false),
        ("pods/log", false, true),
        ("pods/*", true, true),
        ("*/log", false, true),
        ("*", true, true),
        ("services", false, false),
        ("pods/status", false, false),
    ] {
        assert_eq!(matches(resource, pod), of_pod, "{resource} on a pod");
        assert_eq!(matches(resource, log), of_log, "{resource} on a log");
    }
    let deployments = "/apis/apps/v1/deployments";
    assert!(!matches("*", deployments), "another group");
    assert_eq!(
        level("- {level: Metadata, resources: [{group: apps}]}", deployments),
        Level::Metadata
    );
    let named = "- {level: Metadata, resources: [{resources: [pods], resourceNames: [b]}]}";
    assert_eq!(level(named, pod), Level::None);
    let in_other = "- {level: Metadata, namespaces: [kube-system]}";
    assert_eq!(level(in_other, pod), Level::None);
    assert_eq!(level("- {level: Metadata, namespaces: ['']}", "/api/v1/nodes/n"), Level::Metadata);
}

#[test]
fn rules_match_paths_without_resources() {
    let rules = "- {level: Metadata, nonResourceURLs: [/healthz*, /version]}";
    assert_eq!(level(rules, "/healthz/etcd"), Level::Metadata);
    assert_eq!(level(rules, "/version"), Level::Metadata);
    assert_eq!(level(rules, "/version/x"), Level::None);
    assert_eq!(level(rules, "/api/v1/pods"), Level::None);
    let all = "- {level: Metadata, nonResourceURLs: ['*'], verbs: [post]}";
    assert_eq!(level_of(all, &Method::POST, "/metrics"), Level::Metadata);
    assert_eq!(level(all, "/metrics"), Level::None);
}

#[test]
fn the_stages_of_policy_and_rule_are_united_and_the_managed_fields_of_a_rule_win() {
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                omitManagedFields: true\nrules:\n\
                - {level: Metadata, omitStages: [Panic], omitManagedFields: false}";
    let policy = Policy::parse(text.as_bytes()).unwrap();
    let rule = &policy.rules[0];
    let omitted = Stage::ALL.into_iter().filter(|it| rule.omit_stages.contains(*it));
    assert_eq!(omitted.collect::<Vec<_>>(), [Stage::RequestReceived, Stage::Panic]);
    assert!(policy.omit_managed_fields && !rule.omit_managed_fields);
}

#[test]
fn invalid_policies_are_refused_with_the_messages_of_kubernetes() {
    let error = |rules: &str| policy(rules).unwrap_err();
    assert_eq!(error("- {}"), "rules[0].level: Required value");
    assert_eq!(
        error("- level: All"),
        "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \"RequestResponse\""
    );
    assert_eq!(
        error("- {level: None, omitStages: [Start]}"),
        "rules[0].omitStages[0]: Invalid value: \"Start\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"
    );
    assert_eq!(
        error("- {level: None, nonResourceURLs: [healthz]}"),
        "rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' character"
    );
    assert_eq!(
        error("- {level: None, nonResourceURLs: ['/a*b']}"),
        "rules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule"
    );
    assert_eq!(
        error("- {level: None, nonResourceURLs: [/a], namespaces: [b]}"),
        "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs"
    );
    assert_eq!(
        error("- {level: None, resources: [{resourceNames: [a]}]}"),
        "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
    );
    assert!(error("- {level: None, resources: [{group: rbac.authorization.k8s.io/v1}]}").starts_with(
        "rules[0].resources.group: Invalid value: \"rbac.authorization.k8s.io/v1\": a lowercase RFC 1123 subdomain"
    ));
    assert_eq!(policy("").unwrap_err(), "loaded illegal policy with 0 rules");
}

#[test]
fn a_document_of_another_kind_is_refused() {
    let error = |text: &str| Policy::parse(text.as_bytes()).unwrap_err();
    assert!(error("rules: []").contains("'Kind' is missing"));
    assert!(error("kind: Policy\nrules: []").contains("'apiVersion' is missing"));
    assert_eq!(
        error("kind: Policy\napiVersion: audit.k8s.io/v1beta1"),
        "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\""
    );
    assert!(error("kind: Policy\napiVersion: audit.k8s.io/v1\nrules: 1").contains("\"rules\""));
}

#[test]
fn unknown_fields_are_ignored() {
    assert_eq!(level("- {level: Metadata, verb: [get]}", "/version"), Level::Metadata);
}
