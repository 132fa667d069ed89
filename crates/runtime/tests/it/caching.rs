//! Caches of objects that cannot be decoded, and of servers that fail.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::faulty::RequestOutcome;
use crate::world::{Running, Thing, World, manual_clock, options, until};
use machinery::{Value, json};
use runtime::reconcile_history::ReconcileOutcome;
use runtime::{Action, Controller, Failure, Lister, Manager, ManagerOptions, Request};

/// The names of the reconciled things, and their sizes; `None` for a deleted thing.
type Seen = Arc<Mutex<Vec<(String, Option<u32>)>>>;

/// Adds a controller that records the things that it reconciles.
fn record_things(manager: &Manager) -> Seen {
    let seen = Seen::default();
    let context = (manager.lister::<Thing>(), Arc::clone(&seen));
    manager.add(Controller::for_::<Thing>().reconcile(record_size, context));
    seen
}

async fn record_size(request: Request, cx: Arc<(Lister<Thing>, Seen)>) -> Result<Action, Failure> {
    let thing = cx.0.get_key(&request)?;
    let size = thing.map(|thing| thing.spec.size);
    cx.1.lock().unwrap().push((request.name().to_owned(), size));
    Ok(Action::Done)
}

fn was_seen(seen: &Seen, name: &str, size: Option<u32>) -> bool {
    seen.lock().unwrap().iter().any(|it| *it == (name.to_owned(), size))
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_cached_and_reported() {
    let world = World::new().await;
    for (name, size) in [("a", json!(1)), ("b", json!("many")), ("c", json!(3))] {
        world.create_thing(name, size).await;
    }
    let manager = Manager::new(world.client.clone(), options());
    let seen = record_things(&manager);
    let running = Running::start(&manager);
    until("all three were reconciled", async || manager.records("thing").len() == 3).await;
    assert!(was_seen(&seen, "a", Some(1)) && was_seen(&seen, "c", Some(3)));
    let records = manager.records("thing");
    let decode_error = records.iter().find(|record| record.request.name() == "b").unwrap();
    let ReconcileOutcome::FailedPermanently(why) = &decode_error.outcome else {
        panic!("{decode_error:?}")
    };
    assert!(why.contains("cannot decode default/b"), "{why}");
    let raw = manager.informer::<Thing>().indexer().get(&decode_error.request).unwrap();
    assert_eq!(raw.object().unwrap().get(&["spec", "size"]), Some(&Value::from("many")));
    running.stop().await;
}

#[tokio::test]
async fn refusals_delay_a_cache_but_do_not_stop_it() {
    for code in [401, 403, 404, 429, 500, 503] {
        let world = World::new().await;
        world.create_thing("a", json!(1)).await;
        let (faulty, client) = world.faulty();
        let mut left = 2;
        faulty.decide(move |_, target| {
            if target.contains("/things") && left > 0 {
                left -= 1;
                return RequestOutcome::Refused(code);
            }
            RequestOutcome::Served
        });
        let manager = Manager::new(client, options());
        let seen = record_things(&manager);
        let running = Running::start(&manager);
        until(&format!("a is seen after {code}"), async || was_seen(&seen, "a", Some(1))).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn a_retry_after_is_respected() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let (faulty, client) = world.faulty();
    let requests = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&requests);
    faulty.decide(move |_, target| {
        let is_first = target.contains("/things") && counted.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { RequestOutcome::Refused(429) } else { RequestOutcome::Served }
    });
    let clock = manual_clock();
    let manager = Manager::new(client, ManagerOptions { clock: clock.clone(), ..options() });
    let seen = record_things(&manager);
    let running = Running::start(&manager);
    until("the first request was refused", async || requests.load(Ordering::SeqCst) == 1).await;
    for _ in 0..9 {
        clock.advance(Duration::from_millis(100));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(requests.load(Ordering::SeqCst), 1, "the Retry-After of one second has not passed");
    clock.advance(Duration::from_millis(100));
    until("a is seen", async || {
        clock.advance(Duration::from_millis(100));
        was_seen(&seen, "a", Some(1))
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn the_objects_of_a_deleted_crd_are_deleted_and_those_of_its_successor_cached() {
    let world = World::new().await;
    world.create_thing("a", json!(1)).await;
    let manager = Manager::new(world.client.clone(), options());
    let seen = record_things(&manager);
    let running = Running::start(&manager);
    until("a is seen", async || was_seen(&seen, "a", Some(1))).await;
    world.delete_crd().await;
    until("a is gone", async || was_seen(&seen, "a", None)).await;
    world.install_crd().await;
    world.create_thing("a", json!(2)).await;
    until("the new a is seen", async || was_seen(&seen, "a", Some(2))).await;
    running.stop().await;
}
