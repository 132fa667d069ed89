//! Timers on the system clock: resync, delayed keys, and backoff. The other tests move a manual
//! clock, which cannot show that a sleep of the system clock ends.

use std::sync::Arc;
use std::time::Duration;

use crate::recorder::Recorder;
use crate::world::TestWorld;
use informer::work_queue::{Priority, QueueOptions, RateLimits};
use informer::{HandlerOptions, InformerOptions, ReflectorOptions, WorkQueue};
use keel::{Clock, Entropy};
use machinery::Status;

/// Longer than the test takes on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(20);

const DELAY: Duration = Duration::from_millis(200);

/// Waits until `is_true` returns true.
async fn until(what: &str, is_true: impl Fn() -> bool) {
    let polling = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, polling).await.is_ok(), "never: {what}");
}

/// An informer on the system clock, whose server has one object, `a`.
fn on_system_clock(reflector: ReflectorOptions) -> TestWorld {
    let options = InformerOptions { reflector, ..InformerOptions::default() };
    let world = TestWorld::on(&Clock::system(), &Entropy::seeded(1), options);
    world.server.put("a", "red");
    world
}

#[tokio::test]
async fn a_handler_is_resynced_periodically() {
    let world = on_system_clock(ReflectorOptions::default());
    world.informer.start();
    let recorder = Recorder::new();
    let handler: Arc<Recorder> = Arc::clone(&recorder);
    let options = HandlerOptions { resync_period: Some(DELAY), ..HandlerOptions::default() };
    world.informer.add_handler(handler, &options);
    for _ in 0..2 {
        until("a resync", || recorder.take_events().contains("=a")).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_refused_list_is_repeated_after_a_backoff() {
    let reflector = ReflectorOptions { backoff_base: DELAY, ..ReflectorOptions::default() };
    let world = on_system_clock(reflector);
    world.server.state().refusals.extend(vec![Status::unauthorized(); 2]);
    world.informer.start();
    until("listed", || world.cached().contains_key("a")).await;
    assert!(world.server.state().refusals.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_delayed_key_is_handed_out_after_its_delay() {
    let clock = Clock::system();
    let queue = WorkQueue::new(&QueueOptions::default(), &clock, &Entropy::seeded(1));
    let instant = clock.instant();
    queue.add_after("a", DELAY, Priority::default());
    let job =
        tokio::time::timeout(TIMEOUT, queue.get()).await.expect("the key is handed out").unwrap();
    assert_eq!(*job.key(), "a");
    assert!(clock.elapsed_since(&instant) >= DELAY * 9 / 10);
}

#[tokio::test]
async fn a_failed_key_is_handed_out_after_its_backoff() {
    let clock = Clock::system();
    let limits = RateLimits { backoff_base: DELAY, ..RateLimits::default() };
    let options = QueueOptions { limits, ..QueueOptions::default() };
    let queue = WorkQueue::new(&options, &clock, &Entropy::seeded(1));
    queue.add("a");
    for _ in 0..2 {
        let job = tokio::time::timeout(TIMEOUT, queue.get()).await.expect("the key is handed out");
        job.unwrap().retry();
    }
    assert_eq!(queue.failures(&"a"), 2);
}
