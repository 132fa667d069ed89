//! Tests of steps in a running server.

use super::*;
use crate::config::Config;
use crate::server::Server;
use keel::{Entropy, Timestamp};
use machinery::json;

fn definition(uid: usize, resource_version: &str) -> Object {
    let metadata = json!({"uid": uid.to_string(), "resourceVersion": resource_version});
    Object::from_value(json!({"metadata": metadata})).unwrap()
}

async fn start() -> (Server, Steps) {
    let config = Config {
        clock: Clock::manual(Timestamp::from_seconds(0)),
        entropy: Entropy::seeded(1),
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let steps = Steps::new(&server.plane().storage.clock);
    (server, steps)
}

/// Runs one step of a definition to its end.
async fn run(steps: &mut Steps, storage: &Storage, definition: &Object, outcome: Outcome) {
    steps.start(storage, definition, None, async move { outcome });
    while steps.is_running(definition) {
        steps.finished().await;
        assert_eq!(steps.take_finished(), outcome != Outcome::Done);
    }
}

#[tokio::test]
async fn a_bounded_number_of_steps_run_at_once() {
    let (server, mut steps) = start().await;
    for uid in 0..MAX_STEPS {
        assert!(steps.may_start(&definition(uid, "1")));
        steps.start(&server.plane().storage, &definition(uid, "1"), None, std::future::pending());
    }
    assert!(!steps.may_start(&definition(MAX_STEPS, "1")));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_that_failed_is_repeated_after_a_pause_that_doubles() {
    let (server, mut steps) = start().await;
    let plane = server.plane();
    let failing = definition(1, "1");
    let mut pause = Duration::from_millis(200);
    for _ in 0..10 {
        run(&mut steps, &plane.storage, &failing, Outcome::Failed).await;
        assert!(steps.has_failed(&failing));
        plane.storage.clock.advance(pause.saturating_sub(Duration::from_millis(1)));
        assert!(!steps.may_start(&failing));
        plane.storage.clock.advance(Duration::from_millis(1));
        assert!(steps.may_start(&failing));
        pause = (2 * pause).min(Duration::from_secs(10));
    }
    run(&mut steps, &plane.storage, &failing, Outcome::Again).await;
    assert!(steps.may_start(&failing) && !steps.has_failed(&failing));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_that_is_done_is_repeated_once_its_definition_changes() {
    let (server, mut steps) = start().await;
    run(&mut steps, &server.plane().storage, &definition(1, "1"), Outcome::Done).await;
    assert!(!steps.may_start(&definition(1, "1")));
    assert!(steps.may_start(&definition(1, "2")));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_of_a_definition_that_is_gone_is_not_repeated() {
    let (server, mut steps) = start().await;
    let gone = definition(1, "1");
    run(&mut steps, &server.plane().storage, &gone, Outcome::Failed).await;
    assert!(steps.have_failed());
    steps.start(&server.plane().storage, &gone, None, async { Outcome::Failed });
    steps.forget(gone.uid());
    steps.finished().await;
    assert!(!steps.take_finished() && !steps.have_failed());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_that_panics_has_failed() {
    let (server, mut steps) = start().await;
    let panicking = definition(1, "1");
    steps.start(&server.plane().storage, &panicking, None, async { panic!("as if by a bug") });
    steps.finished().await;
    assert!(steps.take_finished() && steps.has_failed(&panicking));
    assert_eq!(server.stop().await.unwrap_err().panicked, ["definition"]);
}
