//! Authorizers that a file names, among them other servers: their decisions, failures and caches, and
//! changes of the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tempfile::TempDir;

use crate::objects::CONFIG_MAPS;
use crate::webhook_server::WebhookServer;
use apiserver::auth::authentication::User;
use apiserver::auth::authorization::configuration::AuthorizationFile;
use apiserver::auth::authorization::fixed_roles::FixedRoles;
use apiserver::auth::authorization::webhook::{
    FailurePolicy, MatchConditions, WebhookAuthorizerSettings,
};
use apiserver::outbound::review_client::ReviewVersion;
use apiserver::outbound::webhook_endpoint::WebhookEndpoint;
use apiserver::{AuthorizerConfig, Config};
use machinery::{PolicyRule, Value, json};
use testenv::media_type::JSON;
use testenv::{Client, TestEnv};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const RULES_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

/// A plane whose file of authorizers is in a directory.
struct Fixture {
    plane: TestEnv,
    directory: TempDir,
}

/// A server that allows alice, denies bob, contradicts itself about eve, does not answer about slow,
/// and has no opinion on others. It answers with `code`, and after a failure with 200.
async fn start(code: &Arc<AtomicU16>) -> WebhookServer {
    let code = Arc::clone(code);
    WebhookServer::start(move |review| {
        let user = review["spec"]["user"].as_str().unwrap().to_owned();
        let status = match user.as_str() {
            "alice" => json!({"allowed": true, "reason": "known"}),
            "bob" => json!({"allowed": false, "denied": true, "reason": "banned"}),
            "eve" => json!({"allowed": true, "denied": true}),
            _ => json!({"allowed": false, "reason": "unknown"}),
        };
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "SubjectAccessReview",
            "status": status});
        let code = code.swap(200, Ordering::SeqCst);
        async move {
            if user == "slow" {
                std::future::pending::<()>().await;
            }
            (code, answer.to_string().into())
        }
    })
    .await
}

async fn healthy() -> WebhookServer {
    start(&Arc::new(AtomicU16::new(200))).await
}

/// A webhook with changed fields, whose kubeconfig is in the directory.
fn webhook(server: &WebhookServer, directory: &TempDir, name: &str, changes: &Value) -> Value {
    let file = directory.path().join(format!("{name}.kubeconfig"));
    std::fs::write(&file, server.kubeconfig()).unwrap();
    let mut webhook = json!({"timeout": "30s", "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": file}});
    for (field, value) in changes.as_object().unwrap() {
        webhook[field] = value.clone();
    }
    json!({"type": "Webhook", "name": name, "webhook": webhook})
}

fn write(directory: &TempDir, authorizers: &[Value]) {
    let configuration = json!({"apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration", "authorizers": authorizers});
    std::fs::write(directory.path().join("authorization.json"), configuration.to_string()).unwrap();
}

fn rbac() -> Value {
    json!({"type": "RBAC", "name": "rbac"})
}

impl Fixture {
    /// A plane with a webhook before RBAC.
    async fn start(server: &WebhookServer, changes: &Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(&directory, &[webhook(server, &directory, "hook", changes), rbac()]);
        Self::start_in(directory).await
    }

    async fn start_in(directory: TempDir) -> Self {
        Self::start_with(directory, |_| {}).await
    }

    /// A plane with the authorizers of the file and further changes.
    async fn start_with(directory: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let file = directory.path().join("authorization.json");
        let file = Arc::new(AuthorizationFile::read(&file, None).unwrap());
        let configure = |config: &mut Config| {
            config.authorizers.push(AuthorizerConfig::File(file));
            change(config);
        };
        let plane = TestEnv::builder().config(configure).start().await;
        Self { plane, directory }
    }

    fn client(&self, user: &str) -> Client {
        self.plane.as_user(User::authenticated(user, "", vec![]))
    }

    /// The code of a list of config maps.
    async fn list(&self, user: &str) -> u16 {
        self.client(user).get(CONFIG_MAPS).await.0
    }

    /// Gives a user all rights, by a role.
    async fn grant(&self, user: &str) {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let binding = json!({"metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": user}]});
        self.plane.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    }

    async fn review(&self, user: &str) -> Value {
        let attributes = json!({"verb": "list", "resource": "configmaps", "namespace": "default"});
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        self.plane.create(REVIEWS, &review).await["status"].take()
    }

    /// The value of a metric whose line contains these texts.
    async fn metric(&self, name: &str, label: &str) -> u64 {
        let text = self.plane.get_as("/metrics", "text/plain").await.text().to_owned();
        let line = text.lines().find(|it| it.starts_with(name) && it.contains(label));
        line.map_or(0, |it| it.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    async fn reloads(&self, status: &str) -> u64 {
        let name = "apiserver_authorization_config_controller_automatic_reloads_total";
        self.metric(name, status).await
    }

    /// Advances the clock until there was another reload with this status.
    async fn advance_until_reloaded(&self, status: &str) {
        let before = self.reloads(status).await;
        for attempt in 0..20_000 {
            if self.reloads(status).await > before {
                return;
            }
            if attempt % 20 == 0 {
                self.plane.advance(Duration::from_secs(10));
            }
            tokio::task::yield_now().await;
        }
        panic!("no reload with the status {status}");
    }
}

#[tokio::test]
async fn another_server_allows_denies_or_leaves_the_decision_to_roles() {
    let server = healthy().await;
    let fixture = Fixture::start(&server, &json!({})).await;
    fixture.grant("bob").await;
    fixture.grant("carol").await;
    assert_eq!(fixture.list("alice").await, 200);
    let (code, refusal) = fixture.client("bob").get(CONFIG_MAPS).await;
    let expected = "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": banned";
    assert_eq!((code, &refusal["message"]), (403, &json!(expected)));
    assert_eq!(fixture.list("carol").await, 200);
    assert_eq!(fixture.list("dave").await, 403);
    let contradiction = fixture.review("eve").await;
    assert_eq!(
        contradiction,
        json!({"allowed": false, "denied": true,
            "evaluationError": "webhook subject access review returned both allow and deny response"})
    );
    assert_eq!(fixture.review("alice").await, json!({"allowed": true, "reason": "known"}));
    assert_eq!(
        fixture.review("bob").await,
        json!({"allowed": false, "denied": true, "reason": "banned"})
    );
    let reason = json!({"allowed": false, "reason": "hook: unknown"});
    assert_eq!(fixture.review("dave").await, reason);
}

#[tokio::test]
async fn the_review_has_the_user_and_the_selectors_of_the_request() {
    let server = healthy().await;
    let fixture = Fixture::start(&server, &json!({})).await;
    let user =
        User { uid: "7".to_owned(), ..User::authenticated("alice", "", vec!["dev".to_owned()]) };
    let query = "labelSelector=a%3Db&fieldSelector=metadata.name%3Dc";
    let path = format!("{CONFIG_MAPS}?{query}");
    assert_eq!(fixture.plane.as_user(user).get(&path).await.0, 200);
    let sent = server.calls().pop().unwrap().review;
    assert_eq!(
        sent["spec"],
        json!({"user": "alice", "uid": "7", "groups": ["dev", "system:authenticated"],
            "resourceAttributes": {"verb": "list", "version": "v1", "resource": "configmaps",
                "namespace": "default", "name": "c",
                "fieldSelector": {"requirements":
                    [{"key": "metadata.name", "operator": "In", "values": ["c"]}]},
                "labelSelector": {"requirements":
                    [{"key": "a", "operator": "In", "values": ["b"]}]}}})
    );
    assert_eq!(fixture.client("alice").get("/metrics").await.0, 200);
    let sent = server.calls().pop().unwrap().review;
    let expected = json!({"path": "/metrics", "verb": "get"});
    assert_eq!(sent["spec"]["nonResourceAttributes"], expected);
}

#[tokio::test]
async fn masters_and_components_do_not_depend_on_another_server() {
    let server = WebhookServer::hanging().await;
    let directory = tempfile::tempdir().unwrap();
    write(&directory, &[webhook(&server, &directory, "hook", &json!({"failurePolicy": "Deny"}))]);
    let rule = PolicyRule::new(&[""], &["configmaps"], &["list"]);
    let fixture = Fixture::start_with(directory, |config| {
        let roles = FixedRoles::new([("component".to_owned(), vec![rule])]);
        config.authorizers.insert(0, Arc::new(roles).into());
    });
    let fixture = fixture.await;
    assert_eq!(fixture.plane.get(CONFIG_MAPS).await.0, 200);
    let component = fixture.plane.as_user(User::component("component", vec![]));
    assert_eq!(component.get(CONFIG_MAPS).await.0, 200);
    assert!(server.calls().is_empty());
    tokio::select! {
        biased;
        code = fixture.list("alice") => panic!("the answer {code} came without the server"),
        () = server.until_called(1) => {}
    }
}

#[tokio::test]
async fn a_server_that_hangs_holds_only_requests_that_wait_for_it() {
    let server = healthy().await;
    for (policy, has_role, expected) in
        [("NoOpinion", true, 200), ("NoOpinion", false, 500), ("Deny", true, 500)]
    {
        let changes = json!({"timeout": "600ms", "failurePolicy": policy,
            "matchConditions": [{"expression": "request.user != 'carol'"}]});
        let fixture = Fixture::start(&server, &changes).await;
        if has_role {
            fixture.grant("slow").await;
        }
        fixture.grant("carol").await;
        let slow = fixture.list("slow");
        let others = async {
            assert_eq!(fixture.list("alice").await, 200, "{policy}");
            assert_eq!(fixture.list("carol").await, 200, "{policy}");
            assert_eq!(fixture.plane.get(CONFIG_MAPS).await.0, 200, "{policy}");
        };
        tokio::select! {
            biased;
            code = slow => panic!("the answer {code} came before others"),
            () = others => {}
        }
        let answer = fixture.client("slow").get_as(CONFIG_MAPS, JSON).await;
        assert_eq!(answer.code, expected, "{policy}");
        let is_timeout = answer.text().contains("context deadline exceeded");
        assert_eq!(is_timeout, expected == 500, "{policy}: {}", answer.text());
        let name = "apiserver_authorization_webhook_evaluations_fail_open_total";
        let failed_open = fixture.metric(name, "result=\"timeout\"").await;
        assert_eq!(failed_open > 0, policy == "NoOpinion", "{policy}");
    }
}

#[tokio::test]
async fn a_user_whose_reviews_hang_leaves_half_of_them_to_others() {
    const HALF: usize = 512;
    let server = healthy().await;
    let fixture = Fixture::start(&server, &json!({})).await;
    let slow = fixture.client("slow");
    let paths: Vec<String> = (0..=HALF).map(|it| format!("{CONFIG_MAPS}/{it}")).collect();
    let requests = paths.iter().map(|path| slow.get_as(path, JSON));
    let mut requests: FuturesUnordered<_> = requests.collect();
    let refused = requests.next().await.unwrap();
    let text = refused.text();
    assert_eq!(refused.code, 500, "{text}");
    assert!(text.contains("too many access reviews are in progress"), "{text}");
    server.until_called(HALF).await;
    assert_eq!(fixture.list("alice").await, 200);
    assert_eq!(fixture.list("bob").await, 403);
    assert!(requests.next().now_or_never().is_none(), "the others wait");
}

#[tokio::test]
async fn an_error_is_reported_if_no_other_authorizer_allows_the_request() {
    let mut server = healthy().await;
    server.set_port(1);
    let fixture = Fixture::start(&server, &json!({})).await;
    let answer = fixture.client("alice").get_as(CONFIG_MAPS, JSON).await;
    assert_eq!(answer.code, 500);
    let text = answer.text();
    assert!(text.contains("Post ") && text.contains("connection refused"), "{text}");
    assert!(!text.contains("of-the-server"), "{text}");
    fixture.grant("alice").await;
    assert_eq!(fixture.list("alice").await, 200);
}

#[tokio::test]
async fn match_conditions_decide_whether_the_server_is_asked() {
    let server = healthy().await;
    for policy in ["NoOpinion", "Deny"] {
        let changes = json!({"failurePolicy": policy, "matchConditions": [
            {"expression": "has(request.resourceAttributes)"},
            {"expression": "request.resourceAttributes.namespace == 'default'"},
            {"expression": "!('dev' in request.groups) || request.extra['team'] == ['blue']"},
        ]});
        let fixture = Fixture::start(&server, &changes).await;
        let before = server.calls().len();
        let alice = fixture.client("alice");
        assert_eq!(alice.get("/metrics").await.0, 403);
        assert_eq!(alice.get("/api/v1/namespaces/other/configmaps").await.0, 403);
        assert_eq!(server.calls().len(), before);
        assert_eq!(alice.get(CONFIG_MAPS).await.0, 200);
        assert_eq!(server.calls().len(), before + 1);
        // The last condition fails for a user without the attribute.
        let dev = User::authenticated("alice", "", vec!["dev".to_owned()]);
        let answer = fixture.plane.as_user(dev).get_as(CONFIG_MAPS, JSON).await;
        assert_eq!(answer.code, 500);
        assert!(answer.text().contains("cel evaluation error"), "{}", answer.text());
        assert_eq!(server.calls().len(), before + 1);
        let name = "apiserver_authorization_match_condition_exclusions_total";
        assert_eq!(fixture.metric(name, "hook").await, 2);
    }
}

#[tokio::test]
async fn answers_are_used_again_until_they_expire() {
    let server = healthy().await;
    let changes = json!({"authorizedTTL": "5m", "unauthorizedTTL": "30s"});
    let fixture = Fixture::start(&server, &changes).await;
    for (user, ttl, code) in [("alice", 300, 200), ("bob", 30, 403), ("dave", 30, 403)] {
        let before = server.calls().len();
        let codes = join_all((0..10).map(|_| fixture.list(user))).await;
        assert_eq!(codes, [code; 10], "{user}");
        fixture.plane.advance(Duration::from_secs(ttl - 1));
        assert_eq!(fixture.list(user).await, code);
        assert_eq!(server.calls().len(), before + 1, "{user}");
        fixture.plane.advance(Duration::from_secs(1));
        assert_eq!(fixture.list(user).await, code);
        assert_eq!(server.calls().len(), before + 2, "{user}");
    }
    let changes = json!({"cacheAuthorizedRequests": false});
    let fixture = Fixture::start(&server, &changes).await;
    let before = server.calls().len();
    for _ in 0..3 {
        assert_eq!(fixture.list("alice").await, 200);
    }
    assert_eq!(server.calls().len(), before + 3);
    let long = format!("{CONFIG_MAPS}/{}", "a".repeat(10_000));
    for _ in 0..2 {
        fixture.client("bob").get(&long).await;
    }
    assert_eq!(server.calls().len(), before + 5);
}

#[tokio::test]
async fn a_passing_failure_is_repeated_and_another_is_not_cached() {
    let code = Arc::new(AtomicU16::new(500));
    let server = start(&code).await;
    let fixture = Fixture::start(&server, &json!({})).await;
    assert_eq!(fixture.list("alice").await, 200);
    assert_eq!(server.calls().len(), 2);
    code.store(404, Ordering::SeqCst);
    assert_eq!(fixture.client("alice").get("/api/v1/pods").await.0, 500);
    assert_eq!(fixture.client("alice").get("/api/v1/pods").await.0, 200);
    assert_eq!(server.calls().len(), 4);
}

#[tokio::test]
async fn several_servers_are_asked_in_their_order() {
    let (first, second) = (healthy().await, healthy().await);
    let directory = tempfile::tempdir().unwrap();
    let changes = json!({"timeout": "3s",
        "matchConditions": [{"expression": "request.user == 'bob'"}]});
    let authorizers = [
        webhook(&first, &directory, "first", &changes),
        webhook(&second, &directory, "second", &json!({"subjectAccessReviewVersion": "v1beta1"})),
        rbac(),
    ];
    write(&directory, &authorizers);
    let fixture = Fixture::start_in(directory).await;
    assert_eq!(fixture.list("bob").await, 403);
    assert_eq!((first.calls().len(), second.calls().len()), (1, 0));
    assert_eq!(fixture.list("alice").await, 200);
    assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
    assert!(first.calls()[0].target.ends_with("?timeout=3s"));
    let sent = &second.calls()[0].review;
    assert_eq!(sent["apiVersion"], "authorization.k8s.io/v1beta1");
    assert_eq!(sent["spec"]["group"], json!(["system:authenticated"]));
}

#[tokio::test]
async fn a_changed_file_replaces_the_authorizers_and_a_bad_one_does_not() {
    let server = healthy().await;
    let fixture = Fixture::start(&server, &json!({})).await;
    let directory = &fixture.directory;
    assert_eq!(fixture.list("alice").await, 200);
    write(directory, &[rbac()]);
    fixture.advance_until_reloaded("success").await;
    assert_eq!(fixture.list("alice").await, 403);
    let hook = webhook(&server, directory, "hook", &json!({}));
    for bad in [
        vec![],
        vec![hook.clone()],
        vec![hook.clone(), rbac(), json!({"type": "Node", "name": "node"})],
        vec![hook.clone(), rbac(), json!({"type": "Node", "name": "n"})],
    ] {
        write(directory, &bad);
        fixture.advance_until_reloaded("failure").await;
        assert_eq!(fixture.list("alice").await, 403, "{bad:?}");
    }
    write(directory, &[hook, rbac()]);
    fixture.advance_until_reloaded("success").await;
    assert_eq!(fixture.list("alice").await, 200);
    std::fs::remove_file(directory.path().join("authorization.json")).unwrap();
    fixture.advance_until_reloaded("failure").await;
    assert_eq!(fixture.list("alice").await, 200);
}

#[tokio::test]
async fn a_webhook_of_the_flags_is_an_authorizer_as_well() {
    let server = healthy().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    std::fs::write(&path, server.kubeconfig()).unwrap();
    let settings = WebhookAuthorizerSettings {
        name: "default".to_owned(),
        endpoint: WebhookEndpoint::read(&path).unwrap(),
        version: ReviewVersion::V1beta1,
        timeout: Duration::from_secs(30),
        authorized_ttl: Duration::from_mins(5),
        unauthorized_ttl: Duration::ZERO,
        failure_policy: FailurePolicy::NoOpinion,
        match_conditions: MatchConditions::default(),
    };
    let authorizer = AuthorizerConfig::Webhook(Box::new(settings));
    let plane = TestEnv::builder()
        .config(|config| config.authorizers.extend([authorizer, AuthorizerConfig::Rbac]))
        .start()
        .await;
    let fixture = Fixture { plane, directory };
    assert_eq!((fixture.list("alice").await, fixture.list("dave").await), (200, 403));
    let review = json!({"spec": {"namespace": "default"}});
    let status = fixture.client("alice").create(RULES_REVIEWS, &review).await["status"].take();
    assert_eq!(status["incomplete"], true);
    let error = "webhook authorizer does not support user rule resolution";
    assert_eq!(status["evaluationError"], error);
}
