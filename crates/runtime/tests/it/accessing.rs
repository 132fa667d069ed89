//! The endpoint of a manager: metrics of the operator, and who may read them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::faulty::RequestOutcome;
use crate::world::{Running, World, manual_clock, options};
use apiserver::config::AuthorizerConfig;
use machinery::json;
use runtime::manager::EndpointAccess;
use runtime::prometheus_client::metrics::counter::Counter;
use runtime::{Manager, ManagerOptions};
use testenv::TestEnv;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The first line and the body of the response to a request with this token.
async fn get(address: SocketAddr, path: &str, token: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let authorization =
        if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: a\r\n{authorization}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// Creates a service account and returns its token.
async fn token_of(world: &World, name: &str) -> String {
    world.env.create(ACCOUNTS, &json!({"metadata": {"name": name}})).await;
    let request = json!({"spec": {"audiences": []}});
    let review = world.env.create(&format!("{ACCOUNTS}/{name}/token"), &request).await;
    review["status"]["token"].as_str().unwrap().to_owned()
}

/// Allows a service account to read the metrics.
async fn allow(world: &World, name: &str) {
    let rule = json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]});
    let role = json!({"metadata": {"name": "metrics-reader"}, "rules": [rule]});
    world.env.create(&format!("{RBAC}/clusterroles"), &role).await;
    let binding = json!({
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
    });
    world.env.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
}

#[tokio::test]
async fn the_metrics_of_the_operator_are_shown() {
    let world = World::new().await;
    let endpoint = Some("127.0.0.1:0".parse().unwrap());
    let manager = Manager::new(world.client.clone(), ManagerOptions { endpoint, ..options() });
    let pages = Counter::<u64>::default();
    manager.register_metrics(|registry| {
        registry.register("site_pages", "The pages that were written", pages.clone());
    });
    manager.add_metrics(|| "# TYPE boats gauge\nboats 7\n".to_owned());
    pages.inc_by(3);
    let running = Running::start(&manager);
    let address = manager.endpoint().await.unwrap();
    let (status, metrics) = get(address, "/metrics", "").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(metrics.contains("\nsite_pages_total 3\n") && metrics.contains("\nboats 7\n"));
    assert!(metrics.contains("process_resident_memory_bytes"), "those of the manager stay");
    assert!(metrics.ends_with("# EOF\n") && metrics.matches("# EOF").count() == 1);
    running.stop().await;
}

#[tokio::test]
async fn only_users_that_may_get_the_path_read_the_metrics() {
    let rbac = |config: &mut apiserver::Config| config.authorizers.push(AuthorizerConfig::Rbac);
    let world = World::with(TestEnv::builder().config(rbac)).await;
    let (faulty, client) = world.faulty();
    let reviews = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reviews);
    faulty.decide(move |_, target| {
        counted.fetch_add(usize::from(target.contains("reviews")), Ordering::Relaxed);
        RequestOutcome::Served
    });
    let (reader, other) = (token_of(&world, "reader").await, token_of(&world, "other").await);
    allow(&world, "reader").await;
    let clock = manual_clock();
    let options = ManagerOptions {
        endpoint: Some("127.0.0.1:0".parse().unwrap()),
        endpoint_access: EndpointAccess::Authorized,
        clock: clock.clone(),
        ..options()
    };
    let manager = Manager::new(client, options);
    let running = Running::start(&manager);
    let address = manager.endpoint().await.unwrap();
    manager.wait_until_ready().await;

    assert_eq!(get(address, "/healthz", "").await.0, "HTTP/1.1 200 OK");
    assert_eq!(get(address, "/readyz", "wrong").await.0, "HTTP/1.1 200 OK");
    assert_eq!(get(address, "/metrics", "").await.0, "HTTP/1.1 401 Unauthorized");
    assert_eq!(get(address, "/metrics", "wrong").await.0, "HTTP/1.1 401 Unauthorized");
    let (status, why) = get(address, "/metrics", &other).await;
    assert_eq!(status, "HTTP/1.1 403 Forbidden");
    assert_eq!(why, "user \"system:serviceaccount:default:other\" may not get /metrics\n");
    assert_eq!(get(address, "/reconciles", &reader).await.0, "HTTP/1.1 403 Forbidden");
    assert_eq!(get(address, "/metrics", &reader).await.0, "HTTP/1.1 200 OK");

    // The decision is cached, also while the server does not respond.
    let before = reviews.load(Ordering::Relaxed);
    assert_eq!(get(address, "/metrics", &reader).await.0, "HTTP/1.1 200 OK");
    assert_eq!(reviews.load(Ordering::Relaxed), before);
    faulty.decide(|_, target| match target {
        _ if target.contains("reviews") => RequestOutcome::Refused(503),
        _ => RequestOutcome::Served,
    });
    assert_eq!(get(address, "/metrics", &reader).await.0, "HTTP/1.1 200 OK");
    clock.advance(std::time::Duration::from_mins(1));
    let (status, why) = get(address, "/metrics", &reader).await;
    assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(why, "cannot ask the API server about this request\n");
    faulty.decide(|_, _| RequestOutcome::Served);
    assert_eq!(get(address, "/metrics", &reader).await.0, "HTTP/1.1 200 OK");
    running.stop().await;
}
