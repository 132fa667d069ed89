//! An authorizer that calls another server: requests and reviews wait for it, and its errors are
//! reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::{Attributes, Authorization, Authorizer, Decision, Rules};
use machinery::{Value, json};
use testenv::TestEnv;
use testenv::media_type::JSON;

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

/// Allows the team blue to use all versions of a resource. It fails for eve.
#[derive(Debug)]
struct RemoteAuthorizer;

impl Authorizer for RemoteAuthorizer {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let decision = async {
            tokio::task::yield_now().await;
            let teams = attributes.user.extra.get("team");
            match attributes.resource {
                _ if attributes.user.name == "eve" => Decision::failed("webhook <down>".to_owned()),
                Some(_) if teams.is_some_and(|it| it.iter().any(|team| team == "blue")) => {
                    Decision::Allow("team blue".into())
                }
                _ => Decision::no_opinion(""),
            }
        };
        Authorization::Pending(decision.boxed())
    }

    fn rules(&self, _: &User, _: &str, rules: &mut Rules) {
        rules.incomplete = true;
        rules.evaluation_errors.push("rules are not listed".to_owned());
    }
}

async fn plane() -> TestEnv {
    let authorizer = Arc::new(RemoteAuthorizer);
    TestEnv::builder().config(|config| config.authorizers.push(authorizer.into())).start().await
}

async fn review(plane: &TestEnv, user: &str, extra: &Value) -> Value {
    let attributes = json!({"verb": "list", "resource": "configmaps", "namespace": "default"});
    let spec = json!({"user": user, "extra": extra, "resourceAttributes": attributes});
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    plane.create(&path, &json!({"spec": spec})).await["status"].clone()
}

#[tokio::test]
async fn a_review_contains_the_extra_attributes_of_the_user() {
    let plane = plane().await;
    let allowed = json!({"allowed": true, "reason": "team blue"});
    assert_eq!(review(&plane, "bob", &json!({"team": ["red", "blue"]})).await, allowed);
    assert_eq!(review(&plane, "bob", &json!({"team": ["red"]})).await, json!({"allowed": false}));
}

#[tokio::test]
async fn a_request_waits_for_the_decision() {
    let plane = plane().await;
    let bob = |team: &str| User {
        extra: BTreeMap::from([("team".to_owned(), vec![team.to_owned()])]),
        ..User::authenticated("bob", "", vec![])
    };
    assert_eq!(plane.as_user(bob("blue")).get(CONFIG_MAPS).await.0, 200);
    assert_eq!(plane.as_user(bob("red")).get(CONFIG_MAPS).await.0, 403);
}

#[tokio::test]
async fn an_error_of_an_authorizer_is_not_reported_as_a_refusal() {
    let plane = plane().await;
    let eve = plane.as_user(User::authenticated("eve", "", vec![]));
    let answer = eve.get_as(&format!("{CONFIG_MAPS}?limit=1"), JSON).await;
    let text = format!("Internal Server Error: \"{CONFIG_MAPS}?limit=1\": webhook &lt;down&gt;\n");
    assert_eq!((answer.code, answer.text()), (500, text.as_str()));
    let status = json!({"allowed": false, "evaluationError": "webhook <down>"});
    assert_eq!(review(&plane, "eve", &json!({})).await, status);
}

#[tokio::test]
async fn a_rules_review_is_incomplete_if_an_authorizer_cannot_list_its_rules() {
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let review = json!({"spec": {"namespace": "default"}});
    let status = plane().await.create(&path, &review).await["status"].clone();
    assert_eq!(status["incomplete"], true);
    assert_eq!(status["evaluationError"], "rules are not listed");
    let status = TestEnv::start().await.create(&path, &review).await["status"].clone();
    assert_eq!((&status["incomplete"], status.get("evaluationError")), (&json!(false), None));
}

#[tokio::test]
async fn an_expression_sees_an_error_instead_of_waiting() {
    const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]});
    let check = "authorizer.serviceAccount('a', 'b').path('/metrics').check('get')";
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": format!("!{check}.errored() && !{check}.allowed()")}]}});
    let binding = json!({"metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (plane, expected) in [(TestEnv::start().await, 201), (plane().await, 422)] {
        plane.create(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
        plane.create(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding).await;
        assert_eq!(plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await.0, expected);
    }
}
