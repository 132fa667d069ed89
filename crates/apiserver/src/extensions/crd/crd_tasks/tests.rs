//! Tests of CRD tasks in a running server.

use super::*;
use crate::config::Config;
use crate::server::Server;
use keel::{Entropy, Timestamp};
use machinery::json;

fn crd(uid: usize, resource_version: &str) -> Object {
    let metadata = json!({"uid": uid.to_string(), "resourceVersion": resource_version});
    Object::from_value(json!({"metadata": metadata})).unwrap()
}

async fn start() -> (Server, CrdTasks) {
    let config = Config {
        clock: Clock::manual(Timestamp::from_seconds(0)),
        entropy: Entropy::seeded(1),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let crd_tasks = CrdTasks::new(&server.plane().storage.clock);
    (server, crd_tasks)
}

/// Runs one task of a CRD to its end.
async fn run(crd_tasks: &mut CrdTasks, storage: &Storage, crd: &Object, outcome: TaskOutcome) {
    crd_tasks.start(storage, crd, None, async move { outcome });
    while crd_tasks.is_running(crd) {
        crd_tasks.finished().await;
        assert_eq!(crd_tasks.take_finished(), outcome != TaskOutcome::Done);
    }
}

#[tokio::test]
async fn a_bounded_number_of_tasks_run_at_once() {
    let (server, mut crd_tasks) = start().await;
    for uid in 0..MAX_TASKS {
        assert!(crd_tasks.may_start(&crd(uid, "1")));
        crd_tasks.start(&server.plane().storage, &crd(uid, "1"), None, std::future::pending());
    }
    assert!(!crd_tasks.may_start(&crd(MAX_TASKS, "1")));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_failed_is_repeated_after_a_pause_that_doubles() {
    let (server, mut crd_tasks) = start().await;
    let plane = server.plane();
    let failing = crd(1, "1");
    let mut pause = FIRST_RETRY_PAUSE;
    for _ in 0..10 {
        run(&mut crd_tasks, &plane.storage, &failing, TaskOutcome::Failed).await;
        assert!(crd_tasks.has_failed(&failing));
        plane.storage.clock.advance(pause.saturating_sub(Duration::from_millis(1)));
        assert!(!crd_tasks.may_start(&failing));
        plane.storage.clock.advance(Duration::from_millis(1));
        assert!(crd_tasks.may_start(&failing));
        pause = (2 * pause).min(MAX_RETRY_PAUSE);
    }
    run(&mut crd_tasks, &plane.storage, &failing, TaskOutcome::Retry).await;
    assert!(crd_tasks.may_start(&failing) && !crd_tasks.has_failed(&failing));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_done_is_repeated_when_its_crd_changes() {
    let (server, mut crd_tasks) = start().await;
    run(&mut crd_tasks, &server.plane().storage, &crd(1, "1"), TaskOutcome::Done).await;
    assert!(!crd_tasks.may_start(&crd(1, "1")));
    assert!(crd_tasks.may_start(&crd(1, "2")));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_of_a_deleted_crd_is_not_repeated() {
    let (server, mut crd_tasks) = start().await;
    let deleted = crd(1, "1");
    run(&mut crd_tasks, &server.plane().storage, &deleted, TaskOutcome::Failed).await;
    assert!(crd_tasks.have_failed());
    crd_tasks.start(&server.plane().storage, &deleted, None, async { TaskOutcome::Failed });
    crd_tasks.remove_crd(deleted.uid());
    crd_tasks.finished().await;
    assert!(!crd_tasks.take_finished() && !crd_tasks.have_failed());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_that_panics_has_failed() {
    let (server, mut crd_tasks) = start().await;
    let panicking = crd(1, "1");
    crd_tasks.start(&server.plane().storage, &panicking, None, async { panic!("as if by a bug") });
    crd_tasks.finished().await;
    assert!(crd_tasks.take_finished() && crd_tasks.has_failed(&panicking));
    assert_eq!(server.stop().await.unwrap_err().panicked, ["crd-task"]);
}
