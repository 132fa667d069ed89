//! The notifications of handlers, and observed writes.

use std::sync::Arc;
use std::time::Duration;

use crate::recorder::Recorder;
use crate::world::TestWorld;
use informer::write_observer::WriteObserver;
use informer::{EventHandler, HandlerOptions, Item, Transform};
use keel::Entropy;
use machinery::selector::LabelSelector;

const MINUTE: Duration = Duration::from_mins(1);

async fn watching() -> TestWorld {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.put("a", "red");
    world.server.put("b", "red");
    world.informer.start();
    world.until_cache_equals_server().await;
    world
}

#[tokio::test]
async fn a_late_handler_is_called_for_all_cached_objects() {
    let world = watching().await;
    let late = Recorder::new();
    let handler: Arc<Recorder> = Arc::clone(&late);
    let registration = world.informer.add_handler(handler, &HandlerOptions::default());
    assert!(!registration.synced.get());
    world.quiesce().await;
    assert!(registration.synced.get());
    world.server.put("c", "red");
    world.server.put("a", "blue");
    world.server.delete("b");
    world.quiesce().await;
    assert_eq!(late.take_events(), "i+a i+b +c ~a -b");
    world.stop().await;
}

#[tokio::test]
async fn an_inline_handler_gets_the_same_events_at_once() {
    let world = watching().await;
    let (inline, queued) = (Recorder::inline(), world.record());
    let handler: Arc<Recorder> = Arc::clone(&inline);
    let registration = world.informer.add_handler(handler, &HandlerOptions::default());
    assert!(registration.synced.get());
    assert_eq!(inline.take_events(), "i+a i+b");
    world.quiesce().await;
    queued.take_events();
    world.server.put("c", "red");
    world.server.put("a", "blue");
    world.server.delete("b");
    world.quiesce().await;
    let events = inline.take_events();
    assert_eq!((events.as_str(), queued.take_events()), ("+c ~a -b", events.clone()));
    assert!(world.informer.remove_handler(registration.id));
    world.server.put("d", "red");
    world.quiesce().await;
    assert_eq!(inline.take_events(), "");
    world.stop().await;
}

#[tokio::test]
async fn a_handler_has_synced_after_the_initial_objects() {
    let world = watching().await;
    let mut subscription = world.informer.subscribe(&HandlerOptions::default());
    let synced = subscription.synced();
    subscription.next().await.unwrap();
    subscription.next().await.unwrap();
    assert!(!synced.get(), "the second event may not be processed yet");
    world.server.put("c", "red");
    subscription.next().await.unwrap();
    assert!(synced.get());
    world.stop().await;
}

#[tokio::test]
async fn a_removed_handler_is_not_called() {
    let world = watching().await;
    let recorder = Recorder::new();
    let handler: Arc<Recorder> = Arc::clone(&recorder);
    let registration = world.informer.add_handler(handler, &HandlerOptions::default());
    world.quiesce().await;
    recorder.take_events();
    assert!(world.informer.remove_handler(registration.id));
    assert!(!world.informer.remove_handler(registration.id));
    world.server.put("c", "red");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "");
    world.stop().await;
}

#[tokio::test]
async fn each_handler_is_resynced_at_its_own_period() {
    let world = watching().await;
    let (often, never) = (Recorder::new(), world.record());
    let handler: Arc<Recorder> = Arc::clone(&often);
    let options = HandlerOptions { resync_period: Some(MINUTE), ..HandlerOptions::default() };
    world.informer.add_handler(handler, &options);
    world.quiesce().await;
    for _ in 0..2 {
        world.clock.advance(MINUTE);
        world.quiesce().await;
    }
    assert_eq!(often.take_events(), "i+a i+b =a =b =a =b");
    assert_eq!(never.take_events(), "i+a i+b");
    world.stop().await;
}

#[tokio::test]
async fn a_slow_handler_delays_no_other_and_gets_every_final_state() {
    let world = watching().await;
    // Capacity for two initial objects, the end of the initial objects, and one more event.
    let options = HandlerOptions { queue_capacity: 4, ..HandlerOptions::default() };
    let mut slow = world.informer.subscribe(&options);
    let quick = world.record();
    for round in 0..100 {
        world.server.put("a", if round % 2 == 0 { "blue" } else { "red" });
        world.quiesce().await;
    }
    assert_eq!(quick.take_events().matches("~a").count(), 100);
    assert!(slow.backlog() <= 4 + 2, "{slow:?}");
    let received = Recorder::new();
    while received.state() != world.on_server() {
        slow.next().await.unwrap().dispatch(&*received);
    }
    assert_eq!(received.take_events(), "i+a i+b ~a");
    world.stop().await;
}

#[tokio::test]
async fn a_handler_that_panics_gets_the_next_event() {
    struct PanickingHandler(Arc<Recorder>);
    impl EventHandler for PanickingHandler {
        fn on_add(&self, item: &Item, is_initial: bool) {
            assert_ne!(item.name(), "a", "expected in this test");
            self.0.on_add(item, is_initial);
        }
        fn on_update(&self, _: &Item, _: &Item) {}
        fn on_delete(&self, _: &Item, _: bool) {}
    }
    let world = watching().await;
    let recorder = Recorder::new();
    let panicking = Arc::new(PanickingHandler(Arc::clone(&recorder)));
    world.informer.add_handler(panicking, &HandlerOptions::default());
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "i+b");
    world.stop().await;
}

#[tokio::test]
async fn an_observed_write_is_notified_at_once_and_only_once() {
    let world = watching().await;
    let recorder = world.record();
    world.quiesce().await;
    recorder.take_events();
    world.server.put("a", "green");
    let written = world.server.put("a", "blue");
    world.observe_write(written.clone());
    let key = written.key();
    assert!(world.informer.indexer().get(key).unwrap().is_same_state(&written));
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "~a");
    let deleted = world.server.delete("a").unwrap();
    WriteObserver::new(&world.informer).observe_deletion(key, deleted.uid());
    assert!(world.informer.indexer().get(key).is_none());
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "-a");
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn an_observed_list_updates_and_deletes_objects_unless_they_are_newer() {
    let world = watching().await;
    let recorder = world.record();
    world.quiesce().await;
    recorder.take_events();
    let observer = WriteObserver::new(&world.informer);
    let before = world.server.put("x", "red");
    world.quiesce().await;
    let now = world.server.put("a", "green");
    observer.observe_read(now.key(), Some(now.clone()), now.resource_version());
    assert!(world.informer.indexer().get(now.key()).unwrap().is_same_state(&now));
    observer.observe_read(now.key(), None, before.resource_version());
    assert!(
        world.informer.indexer().get(now.key()).is_some(),
        "the list is older than the cached state"
    );
    let deleted = world.server.delete("a").unwrap();
    observer.observe_read(now.key(), None, deleted.resource_version());
    assert!(world.informer.indexer().get(now.key()).is_none());
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "+x ~a -a");
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn a_late_response_does_not_restore_a_deleted_object() {
    let world = watching().await;
    let written = world.server.put("a", "blue");
    world.server.delete("a");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    let recorder = world.record();
    world.observe_write(written);
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "i+b");
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn an_observed_write_that_removes_the_last_finalizer_deletes_the_object() {
    for is_late in [false, true] {
        let world = watching().await;
        let recorder = world.record();
        world.quiesce().await;
        // A server responds with the version from before the deletion.
        let mut response = world.server.delete("a").unwrap().object().unwrap();
        response.set_meta("deletionTimestamp", "2026-01-01T00:00:00Z");
        if is_late {
            world.quiesce().await;
        }
        world.observe_write(Item::parse(response.to_bytes()).unwrap());
        assert_eq!(world.cached(), world.on_server());
        world.quiesce().await;
        assert_eq!(recorder.take_events(), "i+a i+b -a");
        world.stop().await;
    }
}

#[tokio::test]
async fn the_scope_of_a_write_is_decided_before_the_transforms() {
    let mut options = informer::InformerOptions::default();
    options.transforms.push(Transform::custom(|object| drop(object.remove_meta("labels"))));
    options.selection.labels = LabelSelector::parse("color=red").unwrap();
    let world = TestWorld::with(&Entropy::seeded(1), options);
    world.informer.start();
    world.until_cache_equals_server().await;
    world.observe_write(world.server.put("a", "red"));
    assert_eq!(world.cached(), world.on_server());
    assert_eq!(world.cached().len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn cached_objects_are_transformed() {
    let mut options = informer::InformerOptions::default();
    options.transforms.push(Transform::custom(|object| drop(object.map_mut().remove("spec"))));
    let world = TestWorld::with(&Entropy::seeded(1), options);
    world.server.put("a", "red");
    world.informer.start();
    world.until_cache_equals_server().await;
    world.server.put("b", "red");
    world.until_cache_equals_server().await;
    for item in world.informer.indexer().list() {
        assert!(item.object().unwrap().get(&["spec"]).is_none());
    }
    world.stop().await;
}
