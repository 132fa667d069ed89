//! The permissions that a request needs besides that for its own verb, and the verbs of requests.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use rcgen::{CertificateParams, KeyPair};

use crate::objects::{CONFIG_MAPS, config_map};
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::{Attributes, Authorization, Authorizer, Decision, Rules};
use machinery::{Value, json};
use testenv::media_type::{JSON, MERGE_PATCH};
use testenv::{Client, TestEnv};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const MUTATING_POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";

/// The rights of all users: `get pods`, or `get pods a` for one name.
#[derive(Debug)]
struct Rights(&'static [&'static str]);

impl Authorizer for Rights {
    fn name(&self) -> &'static str {
        "rights"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        let verb = attributes.verb;
        let is_allowed = attributes.resource.is_some_and(|it| {
            let separator = if it.subresource.is_empty() { "" } else { "/" };
            let any_name = format!("{verb} {}{separator}{}", it.resource, it.subresource);
            let one_name = format!("{any_name} {}", it.name);
            self.0.contains(&any_name.as_str()) || self.0.contains(&one_name.as_str())
        });
        if is_allowed { Decision::allow() } else { Decision::no_opinion("not listed") }.into()
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

/// A plane, and alice, who has these rights.
async fn plane(rights: &'static [&'static str]) -> (TestEnv, Client) {
    let authorizer = Arc::new(Rights(rights));
    let builder = TestEnv::builder().config(|config| {
        config.authorizers.push(authorizer.into());
        config.enabled_plugins = vec!["OwnerReferencesPermissionEnforcement".to_owned()];
    });
    let plane = builder.start().await;
    let alice = plane.as_user(User::authenticated("alice", "", vec![]));
    (plane, alice)
}

/// The code and the message of a response.
fn refusal((code, status): (u16, Value)) -> (u16, String) {
    (code, status["message"].as_str().unwrap_or_default().to_owned())
}

/// A policy with parameters of this kind.
fn policy(name: &str, api_version: &str, kind: &str) -> Value {
    let rule = json!({"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["things"]});
    json!({"metadata": {"name": name}, "spec": {
        "paramKind": {"apiVersion": api_version, "kind": kind},
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}]}})
}

fn mutating_policy(name: &str, api_version: &str, kind: &str) -> Value {
    let mut policy = policy(name, api_version, kind);
    let spec = policy["spec"].as_object_mut().unwrap();
    spec.remove("validations");
    spec.insert("reinvocationPolicy".to_owned(), "Never".into());
    let mutation = json!({"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{}"}});
    spec.insert("mutations".to_owned(), json!([mutation]));
    policy
}

/// A binding of a policy to the parameters with this name, or to all parameters.
fn binding(name: &str, policy: &str, parameter: &str) -> Value {
    let mut reference = json!({"namespace": "default", "parameterNotFoundAction": "Deny"});
    if parameter.is_empty() {
        reference["selector"] = json!({});
    } else {
        reference["name"] = parameter.into();
    }
    json!({"metadata": {"name": name}, "spec": {"policyName": policy, "paramRef": reference}})
}

fn validating_binding(name: &str, policy: &str, parameter: &str) -> Value {
    let mut binding = binding(name, policy, parameter);
    binding["spec"]["validationActions"] = json!(["Deny"]);
    binding
}

const POLICY_RIGHTS: &[&str] = &[
    "create validatingadmissionpolicies",
    "patch validatingadmissionpolicies",
    "create mutatingadmissionpolicies",
    "patch mutatingadmissionpolicies",
    "create validatingadmissionpolicybindings",
    "patch validatingadmissionpolicybindings",
    "create mutatingadmissionpolicybindings",
    "get configmaps",
    "list configmaps",
    "get secrets public",
];

#[tokio::test]
async fn the_user_who_writes_a_policy_must_be_able_to_read_all_its_parameters() {
    let (_plane, alice) = plane(POLICY_RIGHTS).await;
    let missing = |resource: &str, kind: &str, version: &str| {
        let why = r#"user &{alice  [system:authenticated] map[]} must have "get" permission on all objects of the referenced paramKind"#;
        let at =
            format!(r#"{resource}.admissionregistration.k8s.io "a" is invalid: spec.paramKind"#);
        (422, format!("{at}: Forbidden: {why} (kind={kind}, apiVersion={version})"))
    };
    let refused = refusal(alice.post(POLICIES, &policy("a", "v1", "Secret")).await);
    assert_eq!(refused, missing("ValidatingAdmissionPolicy", "Secret", "v1"));
    let mutating = mutating_policy("a", "v1", "Secret");
    let refused = refusal(alice.post(MUTATING_POLICIES, &mutating).await);
    assert_eq!(refused, missing("MutatingAdmissionPolicy", "Secret", "v1"));
    let unknown = policy("a", "example.com/v1", "Unknown");
    let refused = refusal(alice.post(POLICIES, &unknown).await);
    assert_eq!(refused, missing("ValidatingAdmissionPolicy", "Unknown", "example.com/v1"));
    alice.create(POLICIES, &policy("a", "v1", "ConfigMap")).await;
    let change = json!({"spec": {"paramKind": {"kind": "Secret"}}});
    let changed = alice.patch(&format!("{POLICIES}/a"), MERGE_PATCH, &change).await;
    assert_eq!(refusal(changed), missing("ValidatingAdmissionPolicy", "Secret", "v1"));
}

#[tokio::test]
async fn a_policy_can_be_changed_by_a_user_who_cannot_read_its_unchanged_parameters() {
    let (plane, alice) = plane(POLICY_RIGHTS).await;
    plane.create(POLICIES, &policy("a", "v1", "Secret")).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    alice.merge(&format!("{POLICIES}/a"), &label).await;
}

#[tokio::test]
async fn the_user_who_writes_a_binding_must_be_able_to_read_its_parameters() {
    let (plane, alice) = plane(POLICY_RIGHTS).await;
    plane.create(POLICIES, &policy("maps", "v1", "ConfigMap")).await;
    plane.create(POLICIES, &policy("secrets", "v1", "Secret")).await;
    plane.create(POLICIES, &policy("unknown", "example.com/v1", "Unknown")).await;
    for (name, parameter) in [("maps", "m"), ("maps", ""), ("secrets", "public")] {
        let name_of_binding = format!("{name}-{parameter}x");
        alice.create(BINDINGS, &validating_binding(&name_of_binding, name, parameter)).await;
    }
    let user = "user &{alice  [system:authenticated] map[]}";
    let everything = |why: &str, verb: &str| {
        format!(
            r#"{why} to determine minimum required permissions and {user} does not have "{verb}" permission for all groups, versions and resources"#
        )
    };
    let one = |verb: &str| {
        format!(r#"{user} does not have "{verb}" permission on the object referenced by paramRef"#)
    };
    let unresolved = "unable to resolve paramKind &{example.com/v1 Unknown}";
    for (policy, parameter, why) in [
        ("secrets", "private", one("get")),
        ("secrets", "", one("list")),
        ("unknown", "a", everything(unresolved, "get")),
        ("absent", "", everything("unable to get policy absent", "list")),
    ] {
        let refused = alice.post(BINDINGS, &validating_binding("a", policy, parameter)).await;
        let at = r#"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io "a" is invalid"#;
        let message = format!("{at}: spec.paramRef: Forbidden: {why}");
        assert_eq!(refusal(refused), (422, message));
    }
}

#[tokio::test]
async fn the_parameters_of_a_binding_are_authorized_at_every_update() {
    let (plane, alice) = plane(POLICY_RIGHTS).await;
    plane.create(POLICIES, &policy("secrets", "v1", "Secret")).await;
    plane.create(BINDINGS, &validating_binding("a", "secrets", "private")).await;
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(alice.patch(&format!("{BINDINGS}/a"), MERGE_PATCH, &label).await.0, 422);
}

#[tokio::test]
async fn the_parameters_of_a_mutating_binding_are_authorized() {
    let (plane, alice) = plane(POLICY_RIGHTS).await;
    plane.create(MUTATING_POLICIES, &mutating_policy("p", "v1", "Secret")).await;
    let refused = alice.post(MUTATING_BINDINGS, &binding("a", "p", "private")).await;
    let why = r#"user get does not have "&{alice  [system:authenticated] map[]}" permission on the object referenced by paramRef"#;
    let at = r#"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io "a" is invalid"#;
    let message = format!("{at}: spec.paramRef: Forbidden: {why}");
    assert_eq!(refusal(refused), (422, message));
}

#[tokio::test]
async fn an_object_is_created_only_with_the_permission_to_create_it() {
    let (plane, alice) = plane(&["patch configmaps", "update leases", "patch namespaces"]).await;
    let config = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}});
    let apply = async |client: &Client, path: &str, kind: &str| {
        let path = format!("{path}/a?fieldManager=m");
        client.patch(&path, APPLY_PATCH, &config(kind)).await
    };
    let refused = refusal(apply(&alice, CONFIG_MAPS, "ConfigMap").await);
    let message = r#"configmaps "a" is forbidden: User "alice" cannot create resource "configmaps" in API group "" in the namespace "default": rights: not listed"#;
    assert_eq!(refused, (403, message.to_owned()));
    let refused = refusal(apply(&alice, "/api/v1/namespaces", "Namespace").await);
    let message = r#"namespaces "a" is forbidden: User "alice" cannot create resource "namespaces" in API group "" at the cluster scope: rights: not listed"#;
    assert_eq!(refused, (403, message.to_owned()));
    let lease = json!({"metadata": {"name": "a"}});
    let refused = refusal(alice.put(LEASE, &lease).await);
    let message = r#"leases.coordination.k8s.io "a" is forbidden: User "alice" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default": rights: not listed"#;
    assert_eq!(refused, (403, message.to_owned()));
    // The validation of the object precedes the authorization.
    let invalid = json!({"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": -1}});
    assert_eq!(alice.put(LEASE, &invalid).await.0, 422);
    assert_eq!(apply(&plane, CONFIG_MAPS, "ConfigMap").await.0, 201);
    assert_eq!(plane.put(LEASE, &lease).await.0, 201);
    assert_eq!(apply(&alice, CONFIG_MAPS, "ConfigMap").await.0, 200, "the object exists");
}

#[tokio::test]
async fn a_certificate_signing_request_is_approved_and_signed_with_permission_on_its_signer() {
    let (plane, alice) = plane(&[
        "patch certificatesigningrequests/approval",
        "patch certificatesigningrequests/status",
        "approve signers example.com/a",
        "sign signers example.com/*",
    ])
    .await;
    for (name, signer) in [("a", "example.com/a"), ("b", "example.com/b"), ("c", "other.com/a")] {
        let params = CertificateParams::default();
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let spec = json!({"signerName": signer, "usages": ["client auth"],
            "request": BASE64_STANDARD.encode(pem)});
        plane.create(REQUESTS, &json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    let set = async |name: &str, subresource: &str, condition: &str| {
        let condition = json!({"type": condition, "status": "True", "reason": "Test"});
        let status = json!({"status": {"conditions": [condition]}});
        let path = format!("{REQUESTS}/{name}/{subresource}");
        refusal(alice.patch(&path, MERGE_PATCH, &status).await)
    };
    let refused = |name: &str, verb: &str, signer: &str| {
        let at = format!(r#"certificatesigningrequests.certificates.k8s.io "{name}" is forbidden"#);
        let why = format!(r#"user not permitted to {verb} requests with signerName "{signer}""#);
        (403, format!("{at}: {why}"))
    };
    assert_eq!(set("b", "approval", "Denied").await, refused("b", "approve", "example.com/b"));
    assert_eq!(set("c", "status", "Failed").await, refused("c", "sign", "other.com/a"));
    assert_eq!(set("a", "approval", "Approved").await.0, 200);
    assert_eq!(set("b", "status", "Failed").await.0, 200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let unchanged = alice.patch(&format!("{REQUESTS}/c/status"), MERGE_PATCH, &label).await;
    assert_eq!(unchanged.0, 200, "the status does not change");
}

#[tokio::test]
async fn a_refused_owner_reference_has_the_reason_of_the_authorizer() {
    let (plane, alice) = plane(&["create configmaps"]).await;
    let owner = plane.create(CONFIG_MAPS, &config_map("owner", &json!({}))).await;
    let mut owned = config_map("owned", &json!({}));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap",
        "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
    let message = r#"configmaps "owned" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: rights: not listed, <nil>"#;
    assert_eq!(refusal(alice.post(CONFIG_MAPS, &owned).await), (403, message.to_owned()));
}

#[tokio::test]
async fn the_verb_of_a_path_without_resource_is_the_method() {
    let (_plane, alice) = plane(&[]).await;
    for (method, path, verb) in [
        (Method::POST, "/healthz/x", "post"),
        (Method::PUT, "/api/v1", "put"),
        (Method::OPTIONS, "/apis/apps/v1", "options"),
        (Method::DELETE, "/apis", "delete"),
    ] {
        let answer = alice.send(method, path, JSON, String::new()).await;
        let message =
            format!("forbidden: User \"alice\" cannot {verb} path \"{path}\": rights: not listed");
        assert_eq!(refusal((answer.code, answer.value())), (403, message));
    }
    assert_eq!(alice.get("/apis/apps/v1").await.0, 200);
    assert_eq!(alice.send(Method::HEAD, "/apis", JSON, String::new()).await.code, 403);
}

#[tokio::test]
async fn the_verb_of_a_watch_path_is_watch_for_every_method() {
    let (plane, alice) = plane(&[]).await;
    let message = r#"pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope: rights: not listed"#;
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let answer = alice.send(method, "/api/v1/watch/pods", JSON, String::new()).await;
        assert_eq!(refusal((answer.code, answer.value())), (403, message.to_owned()));
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let answer = plane.send(method, "/api/v1/watch/pods", JSON, String::new()).await;
        assert_eq!(answer.code, 405);
    }
}
