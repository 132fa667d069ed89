//! CRDs that kube-apiserver refused, and its messages.

use super::super::crd::STRATEGY;
use super::*;
use crate::validation::testing::{created, object, refusals, refusals_of_update};
use machinery::json;

/// A valid CRD, with a spec changed by `change`.
fn widgets(change: impl FnOnce(&mut Value)) -> Value {
    let mut crd = json!({"metadata": {"name": "widgets.example.dev"}, "spec": {
        "group": "example.dev", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    change(&mut crd["spec"]);
    crd
}

/// The errors about a changed CRD, sorted.
fn sorted_errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut messages = refusals(&STRATEGY, widgets(change));
    messages.sort();
    messages
}

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

#[test]
fn a_good_crd_is_accepted() {
    assert_eq!(sorted_errors(|_| {}), [""; 0]);
}

#[test]
fn the_name_is_made_of_the_plural_and_the_group() {
    let mut crd = widgets(|_| {});
    crd["metadata"]["name"] = json!("wrong.example.dev");
    assert_eq!(
        refusals(&STRATEGY, crd),
        [
            r#"metadata.name: Invalid value: "wrong.example.dev": must be spec.names.plural+"."+spec.group"#
        ]
    );
}

#[test]
fn a_group_is_a_domain() {
    assert_eq!(
        sorted_errors(|spec| spec["group"] = json!("network"))[1],
        r#"spec.group: Invalid value: "network": should be a domain with at least one dot"#
    );
}

#[test]
fn names_are_dns_labels_and_the_scope_is_cluster_or_namespaced() {
    let found = sorted_errors(|spec| {
        spec["scope"] = json!("Galaxy");
        spec["names"] = json!({"plural": "widgets", "kind": "", "shortNames": ["A_B"],
            "categories": ["C D"], "singular": "W W", "listKind": ""});
    });
    assert_eq!(
        found,
        [
            format!("spec.names.categories[0]: Invalid value: \"C D\": {LABEL}"),
            "spec.names.kind: Required value".to_owned(),
            "spec.names.listKind: Required value".to_owned(),
            format!("spec.names.shortNames[0]: Invalid value: \"A_B\": {LABEL}"),
            format!("spec.names.singular: Invalid value: \"W W\": {LABEL}"),
            r#"spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced""#
                .to_owned(),
        ]
    );
}

#[test]
fn there_is_exactly_one_storage_version() {
    assert_eq!(
        sorted_errors(|spec| spec["versions"] = json!([])),
        [
            "spec.versions: Invalid value: []: must have exactly one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ]
    );
    let found = sorted_errors(|spec| {
        let mut second = spec["versions"][0].clone();
        second["name"] = json!("V2");
        spec["versions"].as_array_mut().unwrap().push(second);
    });
    assert_eq!(
        found,
        [
            r#"spec.versions: Invalid value: [{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null},{"Name":"V2","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]: must have exactly one version marked as storage version"#.to_owned(),
            format!("spec.versions[1].name: Invalid value: \"V2\": {LABEL}"),
            r#"status.storedVersions: Invalid value: ["v1"]: must have the storage version V2"#.to_owned(),
        ]
    );
}

#[test]
fn v1_needs_a_schema_and_keeps_no_unknown_fields() {
    assert_eq!(
        sorted_errors(|spec| spec["versions"][0]["schema"] = Value::Null),
        ["spec.versions[0].schema.openAPIV3Schema: Required value"]
    );
    assert_eq!(
        sorted_errors(|spec| spec["preserveUnknownFields"] = json!(true)),
        [
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        ]
    );
}

#[test]
fn errors_of_identical_versions_are_at_the_top_and_others_per_version() {
    let pattern = json!({"openAPIV3Schema": {"type": "object",
        "properties": {"a": {"type": "string", "pattern": "["}}}});
    let shared = sorted_errors(|spec| spec["versions"][0]["schema"] = pattern.clone());
    assert!(
        shared[0].starts_with("spec.validation.openAPIV3Schema.properties[a].pattern: "),
        "{shared:?}"
    );
    let apart = sorted_errors(|spec| {
        let mut second = spec["versions"][0].clone();
        second["name"] = json!("v2");
        second["storage"] = json!(false);
        second["schema"] = pattern;
        spec["versions"].as_array_mut().unwrap().push(second);
    });
    assert!(
        apart[0].starts_with("spec.versions[1].schema.openAPIV3Schema.properties[a].pattern: "),
        "{apart:?}"
    );
}

#[test]
fn paths_of_scale_and_columns_begin_with_a_dot() {
    let found = sorted_errors(|spec| {
        let version = &mut spec["versions"][0];
        version["subresources"] = json!({"scale": {"specReplicasPath": ".status.x",
            "statusReplicasPath": "spec.x", "labelSelectorPath": "[0]"}});
        version["additionalPrinterColumns"] = json!([
            {"name": "", "type": "odd", "jsonPath": "x"},
            {"name": "A", "type": "string", "jsonPath": ".a[", "format": "odd"}]);
    });
    assert_eq!(
        found,
        [
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting with ."#,
            "spec.additionalPrinterColumns[0].name: Required value",
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "odd": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[1].format: Invalid value: "odd": must be one of byte,date,date-time,double,float,int32,int64,password"#,
            r#"spec.subresources.scale.labelSelectorPath: Invalid value: "[0]": must be a simple json path starting with ."#,
            r#"spec.subresources.scale.specReplicasPath: Invalid value: ".status.x": should be a json path under .spec"#,
            r#"spec.subresources.scale.statusReplicasPath: Invalid value: "spec.x": must be a simple json path starting with ."#,
        ]
    );
}

#[test]
fn selectable_fields_are_scalars_that_exist() {
    let found = sorted_errors(|spec| {
        let version = &mut spec["versions"][0];
        version["schema"]["openAPIV3Schema"]["properties"] =
            json!({"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}});
        version["selectableFields"] =
            json!([{"jsonPath": ".a"}, {"jsonPath": ".a"}, {"jsonPath": ".b"}, {"jsonPath": ".l"}]);
    });
    assert_eq!(
        found,
        [
            r#"spec.selectableFields[1].jsonPath: Duplicate value: ".a""#,
            r#"spec.selectableFields[2].jsonPath: Invalid value: ".b": is an invalid path: does not refer to a valid field"#,
            r#"spec.selectableFields[3].jsonPath: Invalid value: ".l": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#,
        ]
    );
}

#[test]
fn rules_are_compiled_when_a_crd_is_created() {
    let rules = |rule: &str| {
        sorted_errors(|spec| {
            spec["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
                json!([{"rule": rule}]);
        })
    };
    assert_eq!(rules("self.metadata.name != ''"), [""; 0]);
    let found = rules("self.metadata.uid != ''");
    assert!(found[0].contains("undefined field 'uid'"), "{found:?}");
}

/// The errors of a CRD whose objects are converted by this webhook.
fn errors_of_webhook(config: &Value, reviews: &Value) -> Vec<String> {
    sorted_errors(|spec| {
        spec["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "clientConfig": config, "conversionReviewVersions": reviews}});
    })
}

#[test]
fn a_conversion_webhook_needs_an_address_and_a_supported_review_version() {
    let (url, none) = (json!({"url": "https://x"}), Vec::<String>::new());
    assert_eq!(errors_of_webhook(&url, &json!(["v1"])), none);
    assert_eq!(errors_of_webhook(&url, &json!(["v9", "v1beta1"])), none);
    let service = json!({"service": {"namespace": "a", "name": "b", "port": 443}});
    assert_eq!(errors_of_webhook(&service, &json!(["v1"])), none);
    assert_eq!(
        errors_of_webhook(&json!({}), &json!(["v2"])),
        [
            r#"spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1"#,
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ]
    );
    assert_eq!(
        errors_of_webhook(&json!({"url": "http://x"}), &json!(["v1"])),
        [
            r#"spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#
        ]
    );
}

#[test]
fn an_established_crd_needs_a_valid_ca_bundle() {
    let with_ca_bundle = |bundle: &str| {
        widgets(|spec| {
            spec["conversion"] = json!({"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://x", "caBundle": bundle},
                "conversionReviewVersions": ["v1"]}});
        })
    };
    let invalid = with_ca_bundle("cnViYmlzaA==");
    assert_eq!(refusals(&STRATEGY, invalid.clone()), Vec::<String>::new());
    let errors = errors_once_established(with_ca_bundle(""), invalid);
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            r#"spec.conversion.webhookClientConfig.caBundle: Invalid value: "cnViYmlzaA==": unable to load root certificates: unable to parse bytes as PEM block"#
        ]
    );
}

/// The errors of a change of an established CRD.
fn errors_once_established(old: Value, new: Value) -> ErrorList {
    let mut established = object(created(&STRATEGY, old));
    let conditions = json!([{"type": "Established", "status": "True"}]);
    established.map_at(&["status"]).insert("conditions".to_owned(), conditions);
    let mut new = object(new);
    (STRATEGY.defaults)(&mut new);
    (STRATEGY.prepare_update)(&mut new, &established);
    let mut errors = ErrorList::new();
    validate_in(&new, Some(&established), "apiextensions.k8s.io/v1", &mut errors);
    errors
}

#[test]
fn groups_of_kubernetes_need_an_approval_in_v1_only() {
    let mut crd = widgets(|spec| spec["group"] = json!("sample.k8s.io"));
    crd["metadata"]["name"] = json!("widgets.sample.k8s.io");
    assert_eq!(
        refusals(&STRATEGY, crd.clone()),
        [
            r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#
        ]
    );
    let mut errors = ErrorList::new();
    validate_in(&object(created(&STRATEGY, crd.clone())), None, "v1beta1", &mut errors);
    assert!(errors.is_empty(), "{}", errors.summary());
    crd["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "unapproved, an experiment"});
    assert_eq!(refusals(&STRATEGY, crd), [""; 0]);
}

#[test]
fn a_v1beta1_crd_without_a_schema_is_accepted_and_updated_in_v1() {
    let mut network = object(json!({"apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition", "metadata": {"name": "networks.samplecrd.k8s.io"},
        "spec": {"group": "samplecrd.k8s.io", "version": "v1", "scope": "Namespaced",
            "names": {"kind": "Network", "plural": "networks"}}}));
    let convert = STRATEGY.convert.unwrap();
    convert(&mut network, "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1");
    let network = object(created(&STRATEGY, network.into_value()));
    let mut errors = ErrorList::new();
    validate_in(&network, None, "v1beta1", &mut errors);
    assert!(errors.is_empty(), "{}", errors.summary());
    validate_in(&network, Some(&network), "v1", &mut errors);
    assert!(
        errors.is_empty(),
        "an update in v1 must not enforce the rules of v1: {}",
        errors.summary()
    );
}

#[test]
fn names_and_scope_are_immutable() {
    let old = widgets(|_| {});
    let new = widgets(|spec| {
        spec["scope"] = json!("Cluster");
        spec["group"] = json!("other.example.dev");
    });
    assert_eq!(
        refusals_of_update(&STRATEGY, new.clone(), old.clone()),
        [r#"spec.group: Invalid value: "other.example.dev": field is immutable"#],
        "before it is established, the scope may still change"
    );
    let errors = errors_once_established(old, new);
    assert_eq!(
        errors.iter().map(|it| it.field.as_str()).collect::<Vec<_>>(),
        ["spec.group", "spec.scope"]
    );
}
