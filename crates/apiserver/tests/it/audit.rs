//! The audit log: which events requests have, and what is in them.

mod annotations;
mod backends;
mod request_objects;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::Method;

use crate::objects::{CONFIG_MAPS, config_map};
use crate::webhook_server::{WebhookServer, answer, patched};
use apiserver::audit::policy::Policy;
use apiserver::audit::{AuditSettings, Delivery, LogFormat, LogSettings};
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::{Attributes, Authorization, Authorizer, Rules};
use apiserver::{Anonymous, AuthorizerConfig, Config};
use machinery::{Value, json};
use testenv::media_type::MERGE_PATCH;
use testenv::{Client, TestEnv};

const PODS: &str = "/api/v1/namespaces/default/pods";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A plane with an audit log, whose policy has these rules.
struct AuditedPlane {
    env: TestEnv,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl AuditedPlane {
    async fn start(rules: &str) -> Self {
        Self::start_with(rules, |_| {}).await
    }

    async fn start_with(rules: &str, change: impl FnOnce(&mut Config)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let settings = settings(rules, &path);
        let builder = TestEnv::builder().config(|config| {
            config.audit = Some(settings);
            change(config);
        });
        Self { env: builder.start().await, path, _directory: directory }
    }

    /// The events so far of requests whose URI contains `uri`.
    fn events(&self, uri: &str) -> Vec<Value> {
        events_in(&self.path)
            .into_iter()
            .filter(|it| it["requestURI"].as_str().unwrap().contains(uri))
            .collect()
    }

    /// The stages of [`Self::events`].
    fn stages(&self, uri: &str) -> Vec<String> {
        let stage = |it: &Value| it["stage"].as_str().unwrap().to_owned();
        self.events(uri).iter().map(stage).collect()
    }

    /// The last event of the requests whose URI contains `uri`.
    fn last(&self, uri: &str) -> Value {
        self.events(uri).pop().unwrap_or_else(|| panic!("{uri} has no event"))
    }

    fn alice(&self) -> Client {
        self.env.as_user(User::authenticated("alice", "u1", vec!["dev".to_owned()]))
    }
}

fn policy(rules: &str) -> Arc<Policy> {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}\n");
    Arc::new(Policy::parse(text.as_bytes()).unwrap())
}

fn settings(rules: &str, path: &Path) -> AuditSettings {
    let delivery = Delivery::of_log();
    let log = LogSettings {
        path: path.to_owned(),
        max_size: 0,
        max_backups: 0,
        max_age: 0,
        format: LogFormat::Json,
        delivery,
    };
    AuditSettings { policy: policy(rules), log: Some(log), webhook: None }
}

fn events_in(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[tokio::test]
async fn an_event_has_the_fields_of_kubernetes_in_their_order() {
    let plane = AuditedPlane::start("- level: Metadata").await;
    let client = plane.env.client().with_header("user-agent", "test <1>");
    let client = client.with_header("audit-id", "id1").with_header("x-forwarded-for", "10.1.2.3");
    client.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let lines = std::fs::read_to_string(&plane.path).unwrap();
    let line = lines.lines().rfind(|it| it.contains("id1")).unwrap();
    let expected = concat!(
        r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id1","#,
        r#""stage":"ResponseComplete","requestURI":"/api/v1/namespaces/default/configmaps","#,
        r#""verb":"create","user":{"username":"sampan-admin","#,
        r#""groups":["system:masters","system:authenticated"]},"sourceIPs":["10.1.2.3"],"#,
        r#""userAgent":"test \u003c1\u003e","objectRef":{"resource":"configmaps","#,
        r#""namespace":"default","name":"a","apiVersion":"v1"},"#,
        r#""responseStatus":{"metadata":{},"code":201},"#,
        r#""requestReceivedTimestamp":"TIME","stageTimestamp":"TIME","#,
        r#""annotations":{"authorization.k8s.io/decision":"allow","#,
        r#""authorization.k8s.io/reason":""}}"#,
    );
    let time = serde_json::from_str::<Value>(line).unwrap()["stageTimestamp"].clone();
    let time = time.as_str().unwrap();
    assert_eq!(time.len(), "2024-05-06T07:08:09.123456Z".len(), "{time}");
    assert_eq!(line.replace(time, "TIME"), expected);
}

#[tokio::test]
async fn a_request_has_an_event_at_its_beginning_and_its_end() {
    let plane = AuditedPlane::start("- level: Metadata").await;
    plane.env.get(&format!("{CONFIG_MAPS}/a")).await;
    let events = plane.events("configmaps/a");
    assert_eq!(plane.stages("configmaps/a"), ["RequestReceived", "ResponseComplete"]);
    assert_eq!(events[0]["auditID"], events[1]["auditID"]);
    assert_eq!(events[0].get("responseStatus"), None);
    assert_eq!(events[1]["responseStatus"]["code"], 404);
    assert_eq!(events[1]["responseStatus"]["message"], "configmaps \"a\" not found");
    assert_eq!(events[1]["responseStatus"]["reason"], "NotFound");
    assert_eq!(events[1]["responseStatus"]["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn the_first_matching_rule_decides_and_stages_can_be_omitted() {
    let rules = "- {level: None, verbs: [list]}\n\
                 - {level: Metadata, omitStages: [RequestReceived], verbs: [get]}\n\
                 - {level: Metadata, resources: [{resources: [configmaps]}]}";
    let plane = AuditedPlane::start(rules).await;
    plane.env.get(CONFIG_MAPS).await;
    assert!(plane.events(CONFIG_MAPS).is_empty());
    plane.env.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(plane.stages("configmaps/a"), ["ResponseComplete"]);
    plane.env.delete(&format!("{CONFIG_MAPS}/b")).await;
    assert_eq!(plane.stages("configmaps/b"), ["RequestReceived", "ResponseComplete"]);
    plane.env.delete(&format!("{PODS}/b")).await;
    assert!(plane.events("/pods").is_empty(), "no rule matches");
}

#[tokio::test]
async fn no_data_is_recorded_below_the_level_request() {
    let plane = AuditedPlane::start("- level: Metadata").await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    plane.env.create(SECRETS, &secret).await;
    let encoded = "aHVudGVyMg==";
    assert_eq!(plane.env.read(&format!("{SECRETS}/s")).await["data"]["password"], encoded);
    plane.env.get(SECRETS).await;
    let patch = json!({"stringData": {"password": "hunter3"}});
    plane.env.patch(&format!("{SECRETS}/s"), MERGE_PATCH, &patch).await;
    let text = std::fs::read_to_string(&plane.path).unwrap();
    assert!(text.contains("secrets/s"));
    for data in ["hunter", encoded, "requestObject", "responseObject"] {
        assert!(!text.contains(data), "{data} is in the log");
    }
}

#[tokio::test]
async fn the_levels_request_and_response_record_objects() {
    let rules = "- {level: Request, verbs: [create, patch, delete]}\n- {level: RequestResponse}";
    let plane = AuditedPlane::start(rules).await;
    plane.env.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let event = plane.last("/configmaps");
    assert_eq!(event["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(event.get("responseObject"), None);
    let patch = json!({"data": {"k": "w"}});
    plane.env.patch(&format!("{CONFIG_MAPS}/a"), MERGE_PATCH, &patch).await;
    assert_eq!(plane.last("configmaps/a")["requestObject"], patch);
    plane.env.read(&format!("{CONFIG_MAPS}/a")).await;
    let event = plane.last("configmaps/a");
    assert_eq!(event["responseObject"]["data"], json!({"k": "w"}));
    assert_eq!(event.get("requestObject"), None);
    plane.env.get(CONFIG_MAPS).await;
    let list = &plane.last("/configmaps")["responseObject"];
    assert_eq!(list["kind"], "ConfigMapList");
    assert!(list["items"].as_array().unwrap().iter().any(|it| it["metadata"]["name"] == "a"));
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    plane.env.delete_with(&format!("{CONFIG_MAPS}/a"), &options).await;
    let event = plane.last("configmaps/a");
    let recorded = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal",
        "gracePeriodSeconds": 0});
    assert_eq!(event["requestObject"], recorded);
    assert_eq!(event["responseStatus"]["status"], "Success");
    assert_eq!(event["responseStatus"]["details"]["name"], "a");
}

#[tokio::test]
async fn objects_in_yaml_and_protobuf_are_recorded_as_json() {
    let plane = AuditedPlane::start("- level: RequestResponse").await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: {k: v}\n";
    let response = plane.env.send(Method::POST, CONFIG_MAPS, "application/yaml", yaml).await;
    assert_eq!(response.code, 201);
    assert_eq!(plane.last("/configmaps")["requestObject"]["data"], json!({"k": "v"}));
    for accept in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
        let uri = format!("{CONFIG_MAPS}/z?for={}", accept.len());
        assert_eq!(plane.env.get_as(&uri, accept).await.code, 200);
        assert_eq!(plane.last(&uri)["responseObject"]["data"], json!({"k": "v"}), "{accept}");
    }
}

#[tokio::test]
async fn managed_fields_are_omitted_if_the_policy_says_so() {
    let rules = "- {level: RequestResponse, verbs: [get]}\n\
                 - {level: RequestResponse, omitManagedFields: true}";
    let plane = AuditedPlane::start(rules).await;
    plane.env.create(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    let without = &plane.last("/configmaps")["responseObject"]["metadata"];
    assert_eq!((&without["name"], without.get("managedFields")), (&json!("a"), None));
    plane.env.read(&format!("{CONFIG_MAPS}/a")).await;
    let with = &plane.last("configmaps/a")["responseObject"]["metadata"];
    assert!(with["managedFields"].is_array());
}

#[tokio::test]
async fn a_watch_has_an_event_when_it_starts_and_when_it_ends() {
    let plane = AuditedPlane::start("- level: RequestResponse").await;
    let uri = format!("{CONFIG_MAPS}?watch=true");
    let watch = plane.env.watch(&uri).await;
    assert_eq!(plane.stages(&uri), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    let event = plane.last(&uri);
    assert_eq!((&event["stage"], &event["verb"]), (&json!("ResponseComplete"), &json!("watch")));
    assert_eq!(event["responseStatus"]["code"], 200);
    assert_eq!(event.get("responseObject"), None);
}

#[tokio::test]
async fn a_refused_request_has_the_decision_and_its_reason() {
    let plane = AuditedPlane::start("- level: RequestResponse").await;
    let (code, status) =
        plane.alice().post(SECRETS, &json!({"stringData": {"p": "hunter2"}})).await;
    assert_eq!(code, 403);
    let event = plane.last("/secrets");
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert!(event["annotations"]["authorization.k8s.io/reason"].is_string());
    assert_eq!(event["responseStatus"]["message"], status["message"]);
    assert_eq!(event["responseStatus"]["code"], 403);
    assert_eq!(event["user"]["username"], "alice");
    assert_eq!(event["user"]["uid"], "u1");
    assert_eq!(event.get("requestObject"), None, "the body was not decoded");
}

#[tokio::test]
async fn the_reason_of_a_role_is_recorded() {
    let change = |config: &mut Config| config.authorizers.push(AuthorizerConfig::Rbac);
    let plane = AuditedPlane::start_with("- level: Metadata", change).await;
    let (code, _) = plane.alice().get("/version").await;
    assert_eq!(code, 200);
    let reason = plane.last("/version")["annotations"]["authorization.k8s.io/reason"].clone();
    let reason = reason.as_str().unwrap();
    assert!(reason.starts_with("RBAC: allowed by ClusterRoleBinding"), "{reason}");
}

#[tokio::test]
async fn impersonation_records_both_users_and_the_constraint() {
    let plane = AuditedPlane::start("- level: Metadata").await;
    let bob = plane.env.with_header("impersonate-user", "bob");
    bob.get("/version").await;
    let event = plane.last("/version");
    assert_eq!(event["user"]["username"], "sampan-admin");
    assert_eq!(event["impersonatedUser"]["username"], "bob");
    assert_eq!(event["impersonatedUser"]["groups"], json!(["system:authenticated"]));
    assert_eq!(event["authenticationMetadata"]["impersonationConstraint"], "impersonate:user-info");
    let first = &plane.events("/version")[0];
    assert_eq!(first.get("impersonatedUser"), None, "it is not known when the request is received");
}

#[tokio::test]
async fn a_failed_authentication_is_recorded_without_the_token() {
    let rules = "- {level: Request, users: ['']}\n- level: Metadata";
    let refuse = |config: &mut Config| config.anonymous = Anonymous::Refused;
    let plane = AuditedPlane::start_with(rules, refuse).await;
    let (code, _) = plane.env.bearer("hunter2").get(PODS).await;
    assert_eq!(code, 401);
    assert_eq!(plane.stages("/pods"), ["ResponseStarted"]);
    let event = plane.last("/pods");
    assert_eq!((&event["level"], &event["user"]), (&json!("Metadata"), &json!({})));
    let unauthorized = json!({"metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401});
    assert_eq!(event["responseStatus"], unauthorized);
    // Upstream: a response in a media type that the client does not accept is not recorded.
    plane.env.bearer("hunter2").get_as(PODS, "text/html").await;
    assert_eq!(
        plane.last("/pods")["responseStatus"],
        json!({"metadata": {}, "message": "Authentication failed, attempted: bearer", "code": 401})
    );
    plane.env.unauthenticated().get_as("/version", "text/html").await;
    let message = &plane.last("/version")["responseStatus"]["message"];
    assert_eq!(message, "Authentication failed, no credentials provided");
    assert!(!std::fs::read_to_string(&plane.path).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn pod_security_annotates_events() {
    let plane = AuditedPlane::start("- level: Metadata").await;
    let pod = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"hostNetwork": true,
        "containers": [{"name": "c", "image": "i"}]}})
    };
    plane.env.create(PODS, &pod("a")).await;
    let annotations = plane.last("/pods")["annotations"].clone();
    assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let labels = json!({"pod-security.kubernetes.io/audit": "baseline"});
    plane.env.merge("/api/v1/namespaces/default", &json!({"metadata": {"labels": labels}})).await;
    plane.env.create(PODS, &pod("b")).await;
    let annotations = plane.last("/pods")["annotations"].clone();
    assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(
        violations.starts_with("would violate PodSecurity \"baseline:latest\": "),
        "{violations}"
    );
}

#[tokio::test]
async fn annotations_of_admission_policies_are_recorded() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    const BINDINGS: &str =
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    let plane = AuditedPlane::start("- level: Metadata").await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]});
    let spec = json!({"matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "never"}],
        "auditAnnotations": [{"key": "name", "valueExpression": "'is ' + object.metadata.name"}]});
    plane.env.create(POLICIES, &json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let spec = json!({"policyName": "p", "validationActions": ["Audit"]});
    plane.env.create(BINDINGS, &json!({"metadata": {"name": "b"}, "spec": spec})).await;
    plane.env.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let annotations = plane.last("/configmaps")["annotations"].clone();
    assert_eq!(annotations["p/name"], "is a");
    let key = "validation.policy.admission.k8s.io/validation_failure";
    assert_eq!(
        annotations[key],
        r#"[{"message":"never","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Audit"]}]"#
    );
}

#[tokio::test]
async fn webhooks_annotate_events() {
    let patching = WebhookServer::start(|review| {
        let mut response = patched(&json!([{"op": "add", "path": "/data", "value": {"k": "v"}}]));
        response["auditAnnotations"] = json!({"why": "because"});
        std::future::ready(answer(&review, &response))
    })
    .await;
    let failing = WebhookServer::start(|_| std::future::ready((500, "no".into()))).await;
    let rules = "- {level: Request, verbs: [create]}\n- level: Metadata";
    let plane = AuditedPlane::start(rules).await;
    let configuration = json!({"metadata": {"name": "m"}, "webhooks": [
        patching.hook("patch.example.com", &json!({})),
        failing.hook("open.example.com", &json!({"failurePolicy": "Ignore"})),
    ]});
    plane.env.create(WEBHOOKS, &configuration).await;
    plane.env.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let annotations = plane.last(CONFIG_MAPS)["annotations"].clone();
    let text = |key: &str| annotations[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("patch.example.com/why"), "because");
    assert_eq!(
        text("mutation.webhook.admission.k8s.io/round_0_index_0"),
        r#"{"configuration":"m","webhook":"patch.example.com","mutated":true}"#
    );
    assert_eq!(
        text("patch.webhook.admission.k8s.io/round_0_index_0"),
        r#"{"configuration":"m","webhook":"patch.example.com","patch":[{"op":"add","path":"/data","value":{"k":"v"}}],"patchType":"JSONPatch"}"#
    );
    assert_eq!(
        text("mutation.webhook.admission.k8s.io/round_0_index_1"),
        r#"{"configuration":"m","webhook":"open.example.com","mutated":false}"#
    );
    let key = "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1";
    assert_eq!(text(key), "open.example.com");
    plane.env.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"x": "y"}})).await;
    let annotations = plane.last("configmaps/a")["annotations"].clone();
    let patch = annotations.get("patch.webhook.admission.k8s.io/round_0_index_0");
    assert_eq!(patch, None, "a patch contains data");
}

/// Panics.
#[derive(Debug)]
struct Broken;

impl Authorizer for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> Authorization<'a> {
        panic!("a bug for {}", attributes.user.name)
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

#[tokio::test]
async fn a_panic_is_recorded() {
    let change = |config: &mut Config| config.authorizers.push(Arc::new(Broken).into());
    let plane = AuditedPlane::start_with("- {level: Metadata, users: [alice]}", change).await;
    let response = plane.alice().send(Method::GET, PODS, "text/plain", "").await;
    assert_eq!(response.code, 500);
    assert_eq!(plane.stages(PODS), ["RequestReceived", "Panic"]);
    assert_eq!(
        plane.last(PODS)["responseStatus"],
        json!({"metadata": {}, "status": "Failure", "code": 500, "reason": "InternalError",
            "message": "APIServer panic'd: a bug for alice"})
    );
}

/// Never decides.
#[derive(Debug)]
struct Undecided;

impl Authorizer for Undecided {
    fn name(&self) -> &'static str {
        "undecided"
    }

    fn authorize<'a>(&'a self, _: &'a Attributes<'a>) -> Authorization<'a> {
        Authorization::Pending(Box::pin(std::future::pending()))
    }

    fn rules(&self, _: &User, _: &str, _: &mut Rules) {}
}

#[tokio::test]
async fn a_request_whose_client_disconnects_is_recorded() {
    let change = |config: &mut Config| config.authorizers.push(Arc::new(Undecided).into());
    let plane = AuditedPlane::start_with("- {level: Metadata, users: [alice]}", change).await;
    let alice = plane.alice();
    let request = tokio::time::timeout(Duration::from_millis(20), alice.get(CONFIG_MAPS));
    assert!(request.await.is_err(), "the request has no answer");
    assert_eq!(plane.stages("/configmaps"), ["RequestReceived", "ResponseComplete"]);
    let status = &plane.last("/configmaps")["responseStatus"];
    let message = "Timeout: request did not complete within requested timeout - context canceled";
    assert_eq!((&status["code"], &status["message"]), (&json!(504), &json!(message)));
}

#[tokio::test]
async fn a_read_that_waits_is_recorded_before_it_has_a_response() {
    let change = |config: &mut Config| config.authorizers.push(Arc::new(Undecided).into());
    let plane = AuditedPlane::start_with("- {level: Metadata, users: [alice]}", change).await;
    let alice = plane.alice();
    let mut request = std::pin::pin!(alice.get(CONFIG_MAPS));
    assert!(request.as_mut().now_or_never().is_none(), "the request has no answer");
    assert_eq!(plane.stages("/configmaps"), ["RequestReceived"]);
}

#[tokio::test]
async fn a_read_whose_last_event_is_omitted_is_recorded_when_it_was_received() {
    let plane = AuditedPlane::start("- {level: Metadata, omitStages: [ResponseComplete]}").await;
    plane.env.get(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(plane.stages("configmaps/a"), ["RequestReceived"]);
}
