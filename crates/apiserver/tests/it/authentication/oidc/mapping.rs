//! The users that the claims of tokens describe.

use super::issuer::TestIssuer;
use super::{error, review};
use machinery::{Value, json};

/// The error of a token with these claims, without the part that all errors have.
async fn refused(issuer: &TestIssuer, change: &Value, claims: &Value) -> String {
    let plane = issuer.plane(change).await;
    let error = error(&plane, &issuer.token(&plane, "sec1", claims)).await;
    error.replace("[invalid bearer token, oidc: ", "").trim_end_matches(']').to_owned()
}

/// The user of a token with these claims.
async fn user(issuer: &TestIssuer, change: &Value, claims: &Value) -> Value {
    let plane = issuer.plane(change).await;
    review(&plane, &issuer.token(&plane, "sec1", claims)).await["user"].take()
}

#[tokio::test]
async fn claims_become_a_user_with_prefixes() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let mappings = json!({"claimMappings": {"username": {"claim": "name", "prefix": ""},
        "groups": {"claim": "roles", "prefix": "r:"}, "uid": {"claim": "sub"}}});
    let claims = json!({"name": "bob", "roles": "ops"});
    let expected =
        json!({"username": "bob", "uid": "alice", "groups": ["r:ops", "system:authenticated"]});
    assert_eq!(user(&issuer, &mappings, &claims).await, expected);
    let why = refused(&issuer, &mappings, &json!({})).await;
    assert_eq!(why, r#"parse username claims "name": claim not present"#);
    let why = refused(&issuer, &mappings, &json!({"name": 7})).await;
    assert_eq!(
        why,
        r#"parse username claims "name": json: cannot unmarshal number into Go value of type string"#
    );
    let why = refused(&issuer, &mappings, &json!({"name": ""})).await;
    assert_eq!(why, r#"the username claim "name" is empty"#);
}

#[tokio::test]
async fn an_email_must_be_verified_if_the_token_says_whether_it_is() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let mappings = json!({"claimMappings": {"username": {"claim": "email", "prefix": ""}}});
    let claims = |verified: Value| json!({"email": "a@b", "email_verified": verified});
    assert_eq!(user(&issuer, &mappings, &claims(json!(true))).await["username"], "a@b");
    assert_eq!(user(&issuer, &mappings, &json!({"email": "a@b"})).await["username"], "a@b");
    let why = refused(&issuer, &mappings, &claims(json!(false))).await;
    assert_eq!(why, "email not verified");
    let why = refused(&issuer, &mappings, &claims(json!("true"))).await;
    assert!(why.starts_with("parse 'email_verified' claim: "), "{why}");
}

#[tokio::test]
async fn expressions_map_claims() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let mappings = json!({"claimMappings": {
        "username": {"expression": "'x-' + claims.sub"},
        "groups": {"expression": "claims.roles.filter(r, r != 'none').map(r, 'g:' + r)"},
        "uid": {"expression": "claims.ids.number"},
        "extra": [
            {"key": "example.org/tenant", "valueExpression": "claims.tenant"},
            {"key": "example.org/none", "valueExpression": "claims.?missing.orValue('')"},
        ],
    }});
    let claims = json!({"roles": ["dev", "none"], "ids": {"number": "7"}, "tenant": ["a", ""]});
    let expected = json!({"username": "x-alice", "uid": "7", "groups": ["g:dev", "system:authenticated"],
        "extra": {"example.org/tenant": ["a"]}});
    assert_eq!(user(&issuer, &mappings, &claims).await, expected);
    let why = refused(&issuer, &mappings, &json!({"sub": 1})).await;
    assert!(why.starts_with("error evaluating username claim expression: expression "), "{why}");
    let why = refused(&issuer, &mappings, &json!({"roles": [], "ids": {"number": 7}})).await;
    assert_eq!(
        why,
        "error evaluating uid claim expression: uid claim expression must return a string"
    );
    let claims = json!({"roles": [], "ids": {"number": "7"}, "tenant": 7});
    let why = refused(&issuer, &mappings, &claims).await;
    assert!(why.ends_with("expression must return a string or a list of strings"), "{why}");
}

#[tokio::test]
async fn rules_refuse_claims_and_users() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let rules = json!({
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "example.org"},
            {"expression": "claims.exp - claims.iat <= 86400", "message": "at most a day"},
        ],
        "userValidationRules": [
            {"expression": "!user.username.startsWith('system:')", "message": "reserved prefix"},
            {"expression": "user.groups.all(g, !g.startsWith('system:'))", "message": "reserved group"},
        ],
    });
    let claims = |change: &Value| {
        let mut claims = json!({"hd": "example.org", "iat": 2_000_000_000, "exp": 2_000_000_060});
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        claims
    };
    assert_eq!(user(&issuer, &rules, &claims(&json!({}))).await["username"], "alice");
    for (change, expected) in [
        (json!({"hd": "b"}), "required claim hd value does not match. Got = b, want = example.org"),
        (
            json!({"exp": 2_100_000_000}),
            "error evaluating claim validation expression: validation expression 'claims.exp - claims.iat <= 86400' failed: at most a day",
        ),
        (
            json!({"sub": "system:admin"}),
            "error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: reserved prefix",
        ),
    ] {
        assert_eq!(refused(&issuer, &rules, &claims(&change)).await, expected);
    }
    let prefixed = json!({"groups": {"claim": "groups", "prefix": ""}});
    let mut rules = rules.clone();
    rules["claimMappings"]["groups"] = prefixed["groups"].clone();
    let why = refused(&issuer, &rules, &claims(&json!({"groups": ["system:masters"]}))).await;
    assert!(why.ends_with("failed: reserved group"), "{why}");
    let why = refused(&issuer, &rules, &json!({"exp": 2_000_000_060})).await;
    assert_eq!(why, "required claim hd not present in ID token");
}

#[tokio::test]
async fn groups_at_another_server_are_refused() {
    let issuer = TestIssuer::start(&["sec1"]).await;
    let claims = json!({"_claim_names": {"groups": "a"},
        "_claim_sources": {"a": {"endpoint": "https://evil.example"}}});
    let why = refused(&issuer, &json!({}), &claims).await;
    assert!(why.starts_with("could not expand distributed claims: "), "{why}");
}
