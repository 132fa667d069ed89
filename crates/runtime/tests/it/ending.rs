//! What a manager reports after it has ended by itself.

use std::time::Duration;

use tokio::time::Instant;

use crate::log::Log;
use crate::world::{World, options};
use keel::message_with_causes;
use runtime::webhook::{CertificateOptions, ServerOptions, WebhookServer};
use runtime::{BackgroundManager, LeaderElection, ManagerError, ManagerOptions};

const MINUTE: Duration = Duration::from_mins(1);

/// A manager whose webhooks cannot get certificates, since the namespace of their Secret is missing.
fn start(world: &World) -> BackgroundManager {
    BackgroundManager::start("operator", world.client.clone(), options(), |manager| {
        let listen = ([127, 0, 0, 1], 0).into();
        let server = WebhookServer::new(ServerOptions { listen, ..ServerOptions::default() });
        let certificates = CertificateOptions::of_service("missing", "hooks");
        manager.serve_webhooks(server, certificates, []);
    })
}

const WHY: &str = "cannot get certificates for the webhooks: the namespace of the secret does not \
                   exist: run `kubectl create namespace missing`";

#[tokio::test]
async fn waits_end_with_a_manager_that_has_failed() {
    let world = World::new().await;
    let operator = start(&world);
    let manager = operator.manager();
    let began = Instant::now();
    let waits = async {
        assert_eq!(manager.webhook_endpoint().await, None);
        assert_eq!(manager.endpoint().await, None);
        assert!(!manager.wait_until_ready().await);
        manager.settled(MINUTE).await.unwrap_err().to_string()
    };
    let error = tokio::time::timeout(MINUTE, waits).await.unwrap();
    assert_eq!(error, format!("not settled: the manager has ended: {WHY}"));
    assert!(began.elapsed() < MINUTE / 2);
    let error = operator.end().await.unwrap_err();
    assert!(matches!(error, ManagerError::Certificates(_)), "{error:?}");
    assert_eq!(message_with_causes(&error), WHY);
}

#[tokio::test]
async fn the_log_names_the_manager_that_has_failed_and_the_causes() {
    let log = Log::start();
    let world = World::new().await;
    let operator = start(&world);
    operator.manager().wait_until_ready().await;
    let _ = operator.end().await;
    let lines = log.lines("a manager has ended with an error").concat();
    assert!(lines.contains(&format!("manager=\"operator\" error=\"{WHY}\"")), "{lines}");
    assert!(log.lines(&format!("the manager stops error=\"{WHY}\"")).len() == 1, "{lines}");
}

#[tokio::test]
async fn a_manager_that_is_refused_at_its_start_has_ended_too() {
    let world = World::new().await;
    let election = LeaderElection::new("default", "the-lease").identity("");
    let options = ManagerOptions { leader_election: Some(election), ..options() };
    let operator = BackgroundManager::start("operator", world.client.clone(), options, |_| {});
    let error = operator.manager().settled(MINUTE).await.unwrap_err().to_string();
    let why = "not settled: the manager has ended: the leader election is not valid: ";
    assert!(error.starts_with(why), "{error}");
    assert!(matches!(operator.end().await, Err(ManagerError::Election(_))));
}

#[tokio::test]
async fn a_stopped_manager_is_not_settled() {
    let world = World::new().await;
    let operator = BackgroundManager::start("operator", world.client.clone(), options(), |_| {});
    let manager = operator.manager().clone();
    assert!(manager.wait_until_ready().await);
    operator.end().await.unwrap();
    let error = manager.settled(MINUTE).await.unwrap_err().to_string();
    assert_eq!(error, "not settled: the manager has ended: it was stopped");
    assert!(!manager.wait_until_ready().await);
}

#[tokio::test]
async fn an_aborted_manager_has_ended() {
    let world = World::new().await;
    let operator = BackgroundManager::start("operator", world.client.clone(), options(), |_| {});
    let manager = operator.manager().clone();
    assert!(manager.wait_until_ready().await);
    operator.kill().await;
    let error = manager.settled(MINUTE).await.unwrap_err().to_string();
    assert_eq!(error, "not settled: the manager has ended: its run was aborted");
}

#[tokio::test]
async fn a_killed_leader_logs_no_error_and_keeps_its_lease() {
    let log = Log::start();
    let world = World::new().await;
    let election = LeaderElection::new("default", "the-lease").identity("one");
    let options = ManagerOptions { leader_election: Some(election), ..options() };
    let operator = BackgroundManager::start("operator", world.client.clone(), options, |_| {});
    assert!(operator.manager().wait_until_ready().await);
    operator.kill().await;
    assert_eq!(log.lines("ERROR"), [""; 0]);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/the-lease";
    assert_eq!(world.env.read(lease).await["spec"]["holderIdentity"], "one");
}
