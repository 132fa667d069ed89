//! Valid and invalid files.

use super::*;

/// A file with one rule for secrets and these providers, in YAML's flow style.
fn file(resources: &str, providers: &str) -> String {
    format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n\
         resources: [{{resources: {resources}, providers: {providers}}}]\n"
    )
}

fn error(resources: &str, providers: &str) -> String {
    parse(file(resources, providers).as_bytes()).err().unwrap_or_default()
}

const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

#[test]
fn every_provider_is_read() {
    let providers = format!(
        "[{{aescbc: {{keys: [{{name: a, secret: {KEY}}}]}}}}, \
          {{aesgcm: {{keys: [{{name: a, secret: {KEY}}}]}}}}, \
          {{secretbox: {{keys: [{{name: a, secret: {KEY}}}]}}}}, \
          {{kms: {{apiVersion: v2, name: a, endpoint: \"unix:///run/a.sock\", timeout: 1s}}}}, \
          {{identity: {{}}}}]"
    );
    let rules = parse(file("[secrets, deployments.apps, '*.example.com']", &providers).as_bytes());
    let [rule] = rules.unwrap().try_into().ok().unwrap();
    let resources: Vec<String> = rule.resources.iter().map(ToString::to_string).collect();
    assert_eq!(resources, ["secrets", "deployments.apps", "*.example.com"]);
    assert_eq!(rule.providers.len(), 5);
    let ProviderConfig::Kms(plugin) = &rule.providers[3] else { panic!("a plugin") };
    assert_eq!((plugin.socket.as_str(), plugin.timeout), ("/run/a.sock", Duration::from_secs(1)));
}

#[test]
fn invalid_files_are_refused_with_the_messages_of_kube_apiserver() {
    let identity = "[{identity: {}}]";
    let cases = [
        (
            error("[]", identity),
            "resources[0].resources: Required value: at least one resources[0].resources is required",
        ),
        (
            error("[secrets]", "[]"),
            "resources[0].providers: Required value: at least one resources[0].providers is required",
        ),
        (
            error("['*']", identity),
            "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
        ),
        (
            error("[secrets, '*.']", identity),
            "resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
        ),
        (
            error("[secrets.*]", identity),
            "resources[0].resources[0]: Invalid value: \"secrets.*\": encrypting the same resource across groups is not supported",
        ),
        (
            error("[Secrets]", identity),
            "resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters",
        ),
        (
            error("[secrets]", "[{aescbc: {keys: [{name: a, secret: YWJj}]}}]"),
            "resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 3, expected one of [16 24 32]",
        ),
        (
            error("[secrets]", "[{secretbox: {keys: []}}]"),
            "resources[0].providers[0].secretbox.keys: Required value: at least one keys is required",
        ),
        (
            error("[secrets]", "[{kms: {apiVersion: v2, name: a, endpoint: 'tcp://a'}}]"),
            "resources[0].providers[0].kms.endpoint: Invalid value: \"tcp://a\": unsupported scheme \"tcp\" for KMS provider, only unix is supported",
        ),
        (
            error("[secrets]", "[{kms: {name: a, endpoint: 'unix:///a'}}]"),
            "resources[0].providers[0].kms.apiVersion: Invalid value: \"v1\": KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.",
        ),
        (
            error("[secrets]", "[{aesgcn: {}}]"),
            "strict decoding error: unknown field \"resources[0].providers[0].aesgcn\"",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn an_error_never_shows_a_key() {
    let secret = "c2VjcmV0LXNlY3JldA==";
    let wrong = [
        format!("[{{aescbc: {{keys: {secret}}}}}]"),
        format!("[{{aescbc: {secret}}}]"),
        format!("[{{aescbc: {{keys: [{secret}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: [{secret}]}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: {secret}}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: '{secret}!'}}]}}}}]"),
        format!("[{{aescbc: {{keys: []}}, secretbox: {{keys: [{{name: a, secret: {secret}}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: !!int {secret}}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: \"{secret}\\z\"}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, ? [{secret}] : b}}]}}}}]"),
        format!("[{{aescbc: {{keys: [{{name: a, secret: *{secret}}}]}}}}]"),
        format!("[{secret}]"),
        secret.to_owned(),
    ];
    for providers in wrong {
        let found = error("[secrets]", &providers);
        assert!(!found.is_empty() && !found.contains("c2VjcmV0"), "{providers}: {found}");
    }
}

#[test]
fn another_kind_of_file_is_refused() {
    let found = parse(b"kind: Pod\napiVersion: v1\n").err().unwrap();
    assert!(found.ends_with("but is of kind \"Pod\" in \"v1\""), "{found}");
}

#[test]
fn a_repeated_field_does_not_replace_keys_by_plaintext() {
    let keys = format!("[{{secretbox: {{keys: [{{name: a, secret: {KEY}}}]}}}}]");
    let found = error("[secrets]", &format!("{keys}, providers: [{{identity: {{}}}}]"));
    let expected = "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"providers\" already set in map";
    assert_eq!(found, expected);
}

#[test]
fn a_file_that_is_not_yaml_is_refused_with_its_line() {
    assert_eq!(parse(b"kind: a\nb: [c\n").err().unwrap(), "line 2 is not valid YAML");
}
