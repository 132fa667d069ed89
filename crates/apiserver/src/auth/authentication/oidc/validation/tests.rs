//! Tests of validation: the messages are upstream's.

use super::*;

const VALID: &str = r#"{"issuer": {"url": "https://a.example", "audiences": ["x"]},
    "claimMappings": {"username": {"claim": "sub", "prefix": "p:"}}}"#;

/// Merges `change` into a valid issuer and returns the errors.
fn errors(change: &str) -> Vec<String> {
    let mut jwt: machinery::Value = serde_json::from_str(VALID).unwrap();
    merge(&mut jwt, serde_json::from_str(change).unwrap());
    let configuration = AuthenticationConfiguration {
        jwt: vec![serde_json::from_value(jwt).unwrap()],
        ..AuthenticationConfiguration::default()
    };
    let mut errors = ErrorList::new();
    compile(&configuration, &["https://own".to_owned()], &mut errors);
    errors.iter().map(|it| it.to_string().replace("jwt[0].", "")).collect()
}

fn merge(target: &mut machinery::Value, change: machinery::Value) {
    match (target, change) {
        (machinery::Value::Object(target), machinery::Value::Object(change)) => {
            for (name, value) in change {
                merge(target.entry(name).or_insert(machinery::Value::Null), value);
            }
        }
        (target, change) => *target = change,
    }
}

fn check(change: &str, expected: &[&str]) {
    assert_eq!(errors(change), expected, "{change}");
}

#[test]
fn a_url_is_https_and_has_nothing_but_host_and_path() {
    check("{}", &[]);
    check(r#"{"issuer": {"url": ""}}"#, &["issuer.url: Required value"]);
    check(
        r#"{"issuer": {"url": "http://u:p@a?b#c"}}"#,
        &[
            r#"issuer.url: Invalid value: "http://u:p@a?b#c": URL scheme must be https"#,
            r#"issuer.url: Invalid value: "http://u:p@a?b#c": URL must not contain a username or password"#,
            r#"issuer.url: Invalid value: "http://u:p@a?b#c": URL must not contain a query"#,
            r#"issuer.url: Invalid value: "http://u:p@a?b#c": URL must not contain a fragment"#,
        ],
    );
    check(
        r#"{"issuer": {"discoveryURL": "https://a.example/"}}"#,
        &[
            r#"issuer.discoveryURL: Invalid value: "https://a.example/": discoveryURL must be different from URL"#,
        ],
    );
}

#[test]
fn the_issuer_of_service_account_tokens_is_refused() {
    check(
        r#"{"issuer": {"url": "https://own"}}"#,
        &[
            r#"issuer.url: Invalid value: "https://own": URL must not overlap with disallowed issuers: [https://own]"#,
        ],
    );
}

#[test]
fn there_is_an_audience_and_a_policy_for_several() {
    check(
        r#"{"issuer": {"audiences": []}}"#,
        &["issuer.audiences: Required value: at least one issuer.audiences is required"],
    );
    check(
        r#"{"issuer": {"audiences": ["a", "", "a"]}}"#,
        &[
            "issuer.audiences[1]: Required value",
            r#"issuer.audiences[2]: Duplicate value: "a""#,
            r#"issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences"#,
        ],
    );
    check(r#"{"issuer": {"audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny"}}"#, &[]);
}

#[test]
fn certificates_must_be_readable() {
    check(
        r#"{"issuer": {"certificateAuthority": "nonsense"}}"#,
        &[
            r#"issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates"#,
        ],
    );
}

#[test]
fn a_mapping_is_a_claim_with_a_prefix_or_an_expression() {
    check(
        r#"{"claimMappings": {"username": {"claim": "", "prefix": null}}}"#,
        &["claimMappings.username: Required value: claim or expression is required"],
    );
    check(
        r#"{"claimMappings": {"username": {"prefix": null}, "groups": {"claim": "g"}}}"#,
        &[
            "claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            "claimMappings.groups.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
        ],
    );
    check(
        r#"{"claimMappings": {"username": {"expression": "claims.sub"}, "uid": {"claim": "a", "expression": "b"}}}"#,
        &[
            r#"claimMappings.username: Invalid value: "": claim and expression can't both be set"#,
            r#"claimMappings.uid: Invalid value: "": claim and expression can't both be set"#,
        ],
    );
    check(
        r#"{"claimMappings": {"username": {"claim": "", "expression": "claims.sub"}}}"#,
        &[
            r#"claimMappings.username.prefix: Invalid value: "p:": may not be specified when expression is set"#,
        ],
    );
}

#[test]
fn a_name_from_an_email_needs_to_know_that_it_is_verified() {
    let mapping = |expression: &str, rules: &str| {
        let change = format!(
            r#"{{"claimMappings": {{"username": {{"claim": "", "prefix": null, "expression": {expression:?}}}}},
                "claimValidationRules": [{rules}]}}"#
        );
        errors(&change).len()
    };
    assert_eq!(mapping("claims.email", ""), 1);
    assert_eq!(mapping("claims.?email.orValue('')", ""), 1);
    assert_eq!(mapping("claims.email_verified ? claims.email : claims.sub", ""), 0);
    let rule = r#"{"expression": "claims.?email_verified.orValue(true) == true"}"#;
    assert_eq!(mapping("claims.email", rule), 0);
}

#[test]
fn attributes_have_keys_with_a_domain_that_is_not_of_kubernetes() {
    check(
        r#"{"claimMappings": {"extra": [{"key": "Foo", "valueExpression": "claims.a"},
            {"key": "x.k8s.io/a", "valueExpression": "claims.a"}, {"key": "a.io/b"}]}}"#,
        &[
            r#"claimMappings.extra[0].key: Invalid value: "Foo": must be a domain-prefixed path (such as "acme.io/foo")"#,
            r#"claimMappings.extra[0].key: Invalid value: "Foo": must be lowercase"#,
            r#"claimMappings.extra[1].key: Invalid value: "x.k8s.io/a": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"#,
            "claimMappings.extra[2].valueExpression: Required value",
        ],
    );
}

#[test]
fn rules_are_boolean_expressions_or_claims() {
    check(
        r#"{"claimValidationRules": [{}, {"claim": "a", "message": "m"}, {"claim": "a"},
            {"expression": "claims.a"}, {"expression": "'a'"}, {"expression": "'a'"}]}"#,
        &[
            "claimValidationRules[0]: Required value: claim or expression is required",
            r#"claimValidationRules[1].message: Invalid value: "m": may not be specified when claim is set"#,
            r#"claimValidationRules[2].claim: Duplicate value: "a""#,
            r#"claimValidationRules[3].expression: Invalid value: "claims.a": must evaluate to bool"#,
            r#"claimValidationRules[4].expression: Invalid value: "'a'": must evaluate to bool"#,
            r#"claimValidationRules[5].expression: Duplicate value: "'a'""#,
        ],
    );
    let found = errors(r#"{"userValidationRules": [{"expression": "user.nam == ''"}, {}]}"#);
    assert!(found[0].contains("compilation failed: "), "{found:?}");
    assert!(found[0].contains("undefined field 'nam'"), "{found:?}");
    assert_eq!(found[1], "userValidationRules[1].expression: Required value");
}
