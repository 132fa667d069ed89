//! Tests of the union of authorizers and of the default rules.

use futures_util::FutureExt;
use http::Method;

use super::*;
use crate::request::Query;

fn authorize_get(user: &User, path: &str) -> Result<(), String> {
    authorize_get_by(&[], user, path)
}

fn authorize_get_by(others: &[Arc<dyn Authorizer>], user: &User, path: &str) -> Result<(), String> {
    let info = RequestInfo::parse(&Method::GET, path, &Query::default()).unwrap();
    let result = Authorizers::new(others).check(&Attributes::new(user, &info)).now_or_never();
    result.expect("the authorizers are in memory").map_err(|it| it.message)
}

/// Denies secrets, and has no opinion on anything else.
#[derive(Debug)]
struct NoSecrets;

impl Authorizer for NoSecrets {
    fn name(&self) -> &'static str {
        "no-secrets"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        match attributes.resource {
            Some(it) if it.resource == "secrets" => Decision::deny("secrets are secret").into(),
            _ => Decision::no_opinion("").into(),
        }
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

#[test]
fn the_first_authorizer_with_an_opinion_decides() {
    let text = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","namespace":"*","resource":"*"}}"#;
    let everything: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse(text).unwrap());
    let no_secrets: Arc<dyn Authorizer> = Arc::new(NoSecrets);
    let alice = User::authenticated("alice", "", vec![]);
    let may = |others: &[&Arc<dyn Authorizer>], path: &str| {
        let others: Vec<_> = others.iter().map(|it| Arc::clone(it)).collect();
        authorize_get_by(&others, &alice, path).is_ok()
    };
    assert!(may(&[&no_secrets, &everything], "/api/v1/pods"));
    assert!(!may(&[&no_secrets, &everything], "/api/v1/secrets"));
    assert!(may(&[&everything, &no_secrets], "/api/v1/secrets"));
    assert!(!may(&[&no_secrets], "/api/v1/pods"));
}

#[test]
fn only_masters_read_objects_by_default() {
    let alice = User::authenticated("alice", "", vec![]);
    assert_eq!(
        authorize_get(&alice, "/api/v1/namespaces/default/pods").unwrap_err(),
        r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#
    );
    assert_eq!(
        authorize_get(&alice, "/apis/apps/v1/deployments").unwrap_err(),
        r#"deployments.apps is forbidden: User "alice" cannot list resource "deployments" in API group "apps" at the cluster scope"#
    );
    let master = masters::member("root");
    assert!(authorize_get(&master, "/api/v1/pods").is_ok());
}

#[test]
fn the_refusal_has_the_reasons_of_the_authorizers() {
    let policies: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse("").unwrap());
    let alice = User::authenticated("alice", "", vec![]);
    let refused =
        |others: &[Arc<dyn Authorizer>]| authorize_get_by(others, &alice, "/metrics").unwrap_err();
    assert_eq!(
        refused(&[policies]),
        r#"forbidden: User "alice" cannot get path "/metrics": abac: No policy matched."#
    );
    assert_eq!(refused(&[]), r#"forbidden: User "alice" cannot get path "/metrics""#);
}

#[test]
fn all_users_read_health_and_authenticated_users_read_discovery() {
    let alice = User::authenticated("alice", "", vec![]);
    assert!(authorize_get(&User::anonymous(), "/readyz").is_ok());
    assert!(authorize_get(&alice, "/apis").is_ok());
    assert_eq!(
        authorize_get(&User::anonymous(), "/apis").unwrap_err(),
        r#"forbidden: User "system:anonymous" cannot get path "/apis""#
    );
    assert!(authorize_get(&alice, "/metrics").is_err());
}

#[test]
fn a_single_health_check_is_not_public() {
    let anonymous = User::anonymous();
    for path in ["/healthz", "/livez", "/readyz", "/version", "/version/"] {
        assert!(authorize_get(&anonymous, path).is_ok(), "{path}");
    }
    for path in ["/healthz/", "/healthz/etcd", "/readyz/ping", "/version/x", "/versions"] {
        let refusal = format!(r#"forbidden: User "system:anonymous" cannot get path "{path}""#);
        assert_eq!(authorize_get(&anonymous, path), Err(refusal));
    }
}

#[test]
fn the_listed_rules_are_those_that_are_applied() {
    let alice = User::authenticated("alice", "", vec![]);
    let rules = Authorizers::new(&[]).rules(&alice, "default");
    for rule in rules["nonResourceRules"].as_array().unwrap() {
        for path in rule["nonResourceURLs"].as_array().unwrap() {
            let path = path.as_str().unwrap().replace('*', "x");
            assert!(authorize_get(&alice, &path).is_ok(), "{path}");
        }
    }
    assert!(authorize_get(&alice, "/apix").is_err());
}

/// Calls another server, which does not answer before the second poll, and then has an error.
#[derive(Debug)]
struct Unreachable;

impl Authorizer for Unreachable {
    fn name(&self) -> &'static str {
        "unreachable"
    }

    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Authorization<'a> {
        Authorization::Pending(
            async {
                tokio::task::yield_now().await;
                Decision::failed("connection refused".to_owned())
            }
            .boxed(),
        )
    }

    fn rules(&self, _: &User, _: &str, rules: &mut Rules) {
        rules.incomplete = true;
        rules.evaluation_errors.push("the webhook has no list of rules".to_owned());
    }
}

#[tokio::test]
async fn an_authorizer_can_wait_and_its_error_is_part_of_the_decision() {
    let policies: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse("").unwrap());
    let authorizers = Authorizers::new(&[Arc::new(Unreachable), policies]);
    let alice = User::authenticated("alice", "", vec![]);
    let info = RequestInfo::parse(&Method::GET, "/metrics", &Query::default()).unwrap();
    let attributes = Attributes::new(&alice, &info);
    let decision = authorizers.decide(&attributes).await;
    assert_eq!(decision.evaluation_error(), Some("connection refused"));
    assert_eq!(decision.reason(), "abac: No policy matched.");
    assert_eq!(
        authorizers.check(&attributes).await.unwrap_err().message,
        r#"forbidden: User "alice" cannot get path "/metrics": connection refused: abac: No policy matched."#
    );
    let rules = authorizers.rules(&alice, "default");
    assert_eq!(rules["incomplete"], true);
    assert_eq!(rules["evaluationError"], "the webhook has no list of rules");
}

#[test]
fn a_caller_that_cannot_wait_gets_an_error_although_a_later_authorizer_allows() {
    let text = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"*"}}"#;
    let everything: Arc<dyn Authorizer> = Arc::new(abac::PolicyFile::parse(text).unwrap());
    let unreachable: Arc<dyn Authorizer> = Arc::new(Unreachable);
    let alice = User::authenticated("alice", "", vec![]);
    let info = RequestInfo::parse(&Method::GET, "/metrics", &Query::default()).unwrap();
    let decide = |first: &Arc<dyn Authorizer>, second: &Arc<dyn Authorizer>| {
        Authorizers::new(&[Arc::clone(first), Arc::clone(second)])
            .decide_immediately(&Attributes::new(&alice, &info))
    };
    assert_eq!(decide(&unreachable, &everything), Err(NotReady));
    assert_eq!(decide(&everything, &unreachable), Ok(Decision::allow()));
}
