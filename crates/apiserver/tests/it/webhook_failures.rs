//! Webhooks that are unreachable, slow, or send invalid responses.

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::objects::{CONFIG_MAPS, config_map};
use crate::webhook_server::{WebhookServer, answer, patched};
use crate::webhooks::{configure_mutating_webhooks, configure_validating_webhooks};
use machinery::{Value, json};
use testenv::TestEnv;

/// Checks the responses for a failing webhook `a.b.c` with the failure policies Fail and Ignore.
async fn check(server: &WebhookServer, why: &str) {
    let plane = TestEnv::start().await;
    configure_validating_webhooks(
        &plane,
        "c",
        &[server.hook("a.b.c", &json!({"timeoutSeconds": 1}))],
    )
    .await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    let why = why.replace("{port}", &server.port().to_string());
    assert_eq!(
        status["message"],
        format!("Internal error occurred: failed calling webhook \"a.b.c\": {why}")
    );
    let plane = TestEnv::start().await;
    let ignored = json!({"failurePolicy": "Ignore", "timeoutSeconds": 1});
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &ignored)]).await;
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &ignored)]).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let metrics = plane.get("/metrics").await.1;
    for counted in [
        "# TYPE apiserver_admission_webhook_fail_open_count counter\n",
        "apiserver_admission_webhook_fail_open_count{name=\"a.b.c\",type=\"admit\"} 1\n",
    ] {
        assert!(metrics.as_str().unwrap().contains(counted), "{metrics}");
    }
}

#[tokio::test]
async fn an_unreachable_webhook_fails() {
    let server = WebhookServer::hanging().await;
    let port = server.port();
    let mut hook = server.hook("a.b.c", &json!({}));
    drop(server);
    // The old port may be in use again; no program listens on port 1.
    hook["clientConfig"]["url"] = "https://127.0.0.1:1/hook".into();
    assert_ne!(port, 1);
    let plane = TestEnv::start().await;
    configure_validating_webhooks(&plane, "c", &[hook]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \"https://127.0.0.1:1/hook?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
}

#[tokio::test]
async fn a_webhook_that_times_out_fails() {
    let server = WebhookServer::hanging().await;
    check(
        &server,
        "failed to call webhook: Post \"https://127.0.0.1:{port}/hook?timeout=1s\": context deadline exceeded",
    )
    .await;
}

#[tokio::test]
async fn a_client_cannot_end_the_call_of_an_ignored_webhook_with_its_own_deadline() {
    let server = WebhookServer::hanging().await;
    let ignored = server.hook("a.b.c", &json!({"failurePolicy": "Ignore", "timeoutSeconds": 10}));
    for is_mutating in [false, true] {
        let plane = TestEnv::start().await;
        let hooks = std::slice::from_ref(&ignored);
        if is_mutating {
            configure_mutating_webhooks(&plane, "c", hooks).await;
        } else {
            configure_validating_webhooks(&plane, "c", hooks).await;
        }
        let path = format!("{CONFIG_MAPS}?timeout=50ms");
        let (code, status) = plane.post(&path, &config_map("a", &json!({}))).await;
        assert_eq!((code, &status["reason"]), (504, &json!("Timeout")));
        assert_eq!(plane.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
    }
}

#[tokio::test]
async fn a_webhook_with_an_invalid_response_fails() {
    let server = WebhookServer::start(|_| std::future::ready((200, "rubbish".into()))).await;
    check(
        &server,
        "failed to call webhook: couldn't get version/kind; json parse error: invalid character 'r' looking for beginning of value",
    )
    .await;
}

#[tokio::test]
async fn a_webhook_with_an_error_status_fails() {
    let server = WebhookServer::start(|_| std::future::ready((500, "oh no".into()))).await;
    check(
        &server,
        "failed to call webhook: an error on the server (\"oh no\") has prevented the request from succeeding",
    )
    .await;
}

#[tokio::test]
async fn a_webhook_with_a_response_over_the_size_limit_fails() {
    let server =
        WebhookServer::start(|_| std::future::ready((200, vec![b' '; 10 << 20].into()))).await;
    check(&server, "failed to call webhook: the response has more than 4194304 bytes").await;
}

#[tokio::test]
async fn a_webhook_with_another_uid_fails() {
    let server = WebhookServer::answering(|_| json!({"uid": "another", "allowed": true})).await;
    let plane = TestEnv::start().await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 500);
    let uid = server.calls()[0].review["request"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(
        status["message"],
        format!(
            "Internal error occurred: failed calling webhook \"a.b.c\": received invalid webhook response: expected response.uid=\"{uid}\", got \"another\""
        )
    );
}

#[tokio::test]
async fn a_validating_webhook_that_sends_a_patch_fails() {
    let server = WebhookServer::answering(|_| patched(&json!([]))).await;
    let plane = TestEnv::start().await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: failed calling webhook \"a.b.c\": received invalid webhook response: validating webhook may not return response.patch"
    );
}

/// The error message for a patch of a webhook.
async fn error_of_patch(patch: Value) -> String {
    let server = WebhookServer::patching(move |_| patch.clone()).await;
    let plane = TestEnv::start().await;
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({"k": "v"}))).await;
    assert_eq!(code, 500, "{status}");
    assert_eq!(plane.get(&format!("{CONFIG_MAPS}/a")).await.0, 404);
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_patch_that_cannot_be_applied_fails() {
    let message = error_of_patch(json!({"op": "add"})).await;
    assert!(
        message.contains("\"a.b.c\": received undecodable patch in webhook response: "),
        "{message}"
    );
    let absent = json!([{"op": "remove", "path": "/data/absent"}]);
    let message = error_of_patch(absent).await;
    assert!(message.starts_with("Internal error occurred: operation 0 "), "{message}");
    let kind = json!([{"op": "replace", "path": "/kind", "value": "Secret"}]);
    let message = error_of_patch(kind).await;
    assert!(message.ends_with("is v1, Kind=Secret, not v1, Kind=ConfigMap"), "{message}");
    let unfit = json!([{"op": "replace", "path": "/data", "value": 7}]);
    let message = error_of_patch(unfit).await;
    assert!(message.contains("cannot unmarshal number"), "{message}");
}

#[tokio::test]
async fn a_patch_of_a_deleted_object_fails() {
    let server = WebhookServer::patching(|request| match request["operation"].as_str() {
        Some("DELETE") => json!([{"op": "add", "path": "/data", "value": {}}]),
        _ => json!([]),
    })
    .await;
    let plane = TestEnv::start().await;
    configure_mutating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    plane.create(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let (code, status) = plane.delete(&format!("{CONFIG_MAPS}/a")).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: admission webhook \"a.b.c\" attempted to modify the object, which is not supported for this operation"
    );
}

#[tokio::test]
async fn the_first_of_several_denials_is_reported_and_all_are_counted() {
    let server = WebhookServer::answering(|_| json!({"allowed": false})).await;
    let plane = TestEnv::start().await;
    let hooks = [server.hook("z.b.c", &json!({})), server.hook("a.b.c", &json!({}))];
    configure_validating_webhooks(&plane, "c", &hooks).await;
    let (code, status) = plane.post(CONFIG_MAPS, &config_map("a", &json!({}))).await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "admission webhook \"z.b.c\" denied the request without explanation"
    );
    let metrics = plane.get("/metrics").await.1;
    for name in ["z.b.c", "a.b.c"] {
        let counted = format!(
            "apiserver_admission_webhook_rejection_count{{name=\"{name}\",type=\"validating\",operation=\"CREATE\",error_type=\"no_error\",rejection_code=\"400\"}} 1"
        );
        assert!(metrics.as_str().unwrap().contains(&counted), "{metrics}");
        let counted = format!(
            "apiserver_admission_webhook_request_total{{name=\"{name}\",type=\"validating\",operation=\"CREATE\",code=\"400\",rejected=\"true\"}} 1"
        );
        assert!(metrics.as_str().unwrap().contains(&counted), "{metrics}");
    }
    let counted = "# TYPE apiserver_admission_webhook_rejection_count counter\n";
    assert!(metrics.as_str().unwrap().contains(counted), "{metrics}");
}

/// A webhook that allows requests after `true` was sent to it.
async fn waiting_webhook() -> (WebhookServer, watch::Sender<bool>) {
    let (release, released) = watch::channel(false);
    let server = WebhookServer::start(move |review| {
        let mut released = released.clone();
        async move {
            released.wait_for(|it| *it).await.unwrap();
            answer(&review, &json!({"allowed": true}))
        }
    });
    (server.await, release)
}

#[tokio::test]
async fn an_object_whose_namespace_was_deleted_during_a_webhook_is_not_created() {
    let plane = TestEnv::start().await;
    plane.create("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    let (server, release) = waiting_webhook().await;
    configure_validating_webhooks(&plane, "c", &[server.hook("a.b.c", &json!({}))]).await;
    let (path, map) = ("/api/v1/namespaces/n/configmaps", config_map("a", &json!({})));
    let deletion = async {
        while server.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(plane.delete("/api/v1/namespaces/n").await.0, 200);
        release.send(true).unwrap();
    };
    let ((code, status), ()) = tokio::join!(plane.post(path, &map), deletion);
    assert_eq!(code, 403, "{status}");
    let message = "configmaps \"a\" is forbidden: unable to create new content in namespace n because \
                   it is being terminated";
    assert_eq!(status["message"], message);
    assert_eq!(plane.get(&format!("{path}/a")).await.0, 404);
}

#[tokio::test]
async fn a_hanging_webhook_delays_no_other_request() {
    let plane = TestEnv::builder().config(|config| config.max_writes = 200).start().await;
    let (server, release) = waiting_webhook().await;
    configure_validating_webhooks(
        &plane,
        "c",
        &[server.hook("a.b.c", &json!({"timeoutSeconds": 30}))],
    )
    .await;
    let maps: Vec<Value> = (0..200).map(|it| config_map(&format!("m{it}"), &json!({}))).collect();
    let waiting = join_all(maps.iter().map(|it| plane.post(CONFIG_MAPS, it)));
    let others = async {
        while server.calls().len() < maps.len() {
            tokio::task::yield_now().await;
        }
        for index in 0..20 {
            let secret = json!({"metadata": {"name": format!("s{index}")}});
            plane.create("/api/v1/namespaces/default/secrets", &secret).await;
        }
        release.send(true).unwrap();
    };
    let (answers, ()) = tokio::join!(waiting, others);
    assert!(answers.iter().all(|(code, _)| *code == 201), "{answers:?}");
}
