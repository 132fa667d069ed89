//! Lists and watches after each kind of failure.

use std::time::Duration;

use crate::server::{Fault, InitialEvents};
use crate::world::TestWorld;
use informer::ReflectorPhase;
use keel::Entropy;
use machinery::Status;

/// A world with three objects, listed and watched.
async fn watching() -> TestWorld {
    let world = TestWorld::new(&Entropy::seeded(1));
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world.informer.start();
    world.until_cache_equals_server().await;
    world.quiesce().await;
    world
}

#[tokio::test]
async fn a_list_is_requested_in_pages_if_the_server_does_not_stream_it() {
    let world = watching().await;
    assert_eq!(world.take_requests(), "watch list list watch");
    assert_eq!(world.informer.reflector_status().borrow().lists, 1);
    world.stop().await;
}

#[tokio::test]
async fn an_event_changes_the_status_without_waking_its_receivers() {
    let world = watching().await;
    let mut status = world.informer.reflector_status();
    let before = status.borrow_and_update().resource_version.clone();
    world.server.put("a", "blue");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert!(!status.has_changed().unwrap());
    assert_ne!(status.borrow().resource_version, before);
    world.stop().await;
}

#[tokio::test]
async fn a_list_is_streamed_if_the_server_supports_it() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.state().initial_events = InitialEvents::Sent;
    world.server.put("a", "red");
    world.informer.start();
    world.until_cache_equals_server().await;
    world.server.put("b", "red");
    world.until_cache_equals_server().await;
    assert_eq!(world.take_requests(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_ignores_or_fails_a_streamed_list_is_listed_in_pages() {
    for initial_events in [InitialEvents::Endless, InitialEvents::Broken] {
        let world = TestWorld::new(&Entropy::seeded(1));
        world.server.state().initial_events = initial_events;
        world.server.put("a", "red");
        world.informer.start();
        world.until_cache_equals_server().await;
        world.quiesce().await;
        assert_eq!(world.take_requests(), "watch list watch");
        world.stop().await;
    }
}

/// An informer that is not started, of a server with three objects and this support of streamed
/// lists.
fn streaming(initial_events: InitialEvents) -> TestWorld {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.state().initial_events = initial_events;
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world
}

#[tokio::test]
async fn initial_events_without_an_end_are_detected_during_other_changes() {
    for (creates, longest) in [(false, 15), (true, 180)] {
        let world = streaming(InitialEvents::Endless);
        world.informer.start();
        let mut waited = Duration::ZERO;
        while !world.informer.has_synced().get() {
            assert!(waited < Duration::from_secs(longest), "with creations: {creates}");
            let name = if creates { format!("new-{}", waited.as_secs()) } else { "a".to_owned() };
            world.server.put(&name, "blue");
            world.quiesce().await;
            world.clock.advance(Duration::from_secs(5));
            waited += Duration::from_secs(5);
            world.quiesce().await;
        }
        world.until_cache_equals_server().await;
        world.stop().await;
    }
}

#[tokio::test]
async fn a_streamed_list_that_is_cut_is_not_requested_again() {
    let world = streaming(InitialEvents::Sent);
    world.server.state().faults.push_back(Fault::Cut(2));
    world.informer.start();
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn streamed_lists_that_fail_repeatedly_are_replaced_by_a_list_in_pages() {
    let world = streaming(InitialEvents::Sent);
    world.server.state().faults.extend([Fault::Truncated(1); 3]);
    world.informer.start();
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch watch watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn an_object_without_a_name_is_counted_and_left_out() {
    for initial_events in [InitialEvents::Sent, InitialEvents::Refused] {
        let world = streaming(initial_events);
        world.server.put_nameless();
        world.informer.start();
        world.until_cache_equals_server().await;
        world.quiesce().await;
        world.take_requests();
        world.server.put_nameless();
        world.server.put("d", "red");
        world.until_cache_equals_server().await;
        assert_eq!(world.take_requests(), "", "the watch continues");
        assert_eq!(world.informer.reflector_status().borrow().bad_items, 2);
        world.stop().await;
    }
}

#[tokio::test]
async fn a_version_that_the_server_cannot_serve_leads_to_a_list() {
    let world = watching().await;
    world.server.state().refusals.push_back(Status::bad_request("no such version"));
    world.server.cut();
    world.until("listed at once", || world.informer.reflector_status().borrow().lists == 2).await;
    world.quiesce().await;
    world.server.state().faults.extend([Fault::Failed(0); 3]);
    world.server.cut();
    world.take_requests();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 3).await;
    assert_eq!(world.take_requests(), "watch watch watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn a_list_without_a_version_is_followed_by_a_watch() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.state().hides_versions = true;
    for name in ["c", "a", "b"] {
        world.server.put(name, "red");
    }
    world.informer.start();
    world.until_cache_equals_server().await;
    world.server.put("d", "red");
    world.until_cache_equals_server().await;
    world.server.delete("a");
    world.until_cache_equals_server().await;
    assert_eq!(world.take_requests(), "watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn a_watch_that_was_cut_is_resumed() {
    let world = watching().await;
    world.server.state().faults.push_back(Fault::Cut(1));
    world.server.restart();
    world.quiesce().await;
    world.take_requests();
    for name in ["d", "e"] {
        world.server.put(name, "red");
        world.until_cache_equals_server().await;
    }
    assert!(!world.take_requests().contains("list"));
    world.stop().await;
}

#[tokio::test]
async fn a_line_that_was_cut_off_is_requested_again() {
    let world = watching().await;
    world.server.state().faults.push_back(Fault::Truncated(0));
    world.server.restart();
    world.until("watching again", || world.server.state().faults.is_empty()).await;
    world.take_requests();
    world.server.put("d", "red");
    world.until_cache_equals_server().await;
    assert_eq!(world.take_requests(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn compacted_history_leads_to_a_list() {
    let world = watching().await;
    let recorder = world.record();
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "i+a i+b i+c");
    world.server.state().absent = true;
    world.server.restart();
    world.server.delete("a");
    world.server.put("b", "blue");
    world.server.compact();
    world.server.state().absent = false;
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "~b xa");
    world.stop().await;
}

#[tokio::test]
async fn an_error_event_with_410_leads_to_a_list() {
    let world = watching().await;
    world.server.state().faults.push_back(Fault::Expired(0));
    world.server.restart();
    world.take_requests();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 2).await;
    world.stop().await;
}

#[tokio::test]
async fn the_state_of_a_restored_backup_is_accepted() {
    let world = watching().await;
    world.observe_write(world.server.put("own", "red"));
    world.server.restore(&Entropy::seeded(3));
    world.until_cache_equals_server().await;
    world.server.put("own", "red");
    world.until_cache_equals_server().await;
    world.stop().await;
}

#[tokio::test]
async fn repeated_events_lead_to_a_list_and_are_not_notified_again() {
    let world = watching().await;
    let recorder = world.record();
    world.server.put("a", "blue");
    world.server.put("a", "red");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    recorder.take_events();
    world.server.state().faults.push_back(Fault::Replayed(2));
    world.server.cut();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 2).await;
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "");
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn events_in_the_wrong_order_lead_to_a_list() {
    let world = watching().await;
    world.server.state().faults.push_back(Fault::Reordered(0));
    world.server.cut();
    for color in ["blue", "green", "red"] {
        world.server.put("a", color);
    }
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 2).await;
    world.quiesce().await;
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn a_retry_after_is_respected() {
    let world = watching().await;
    world.server.state().refusals.push_back(Status::too_many_requests("slow down", 60));
    world.server.restart();
    world.quiesce().await;
    // The watch was closed early, which has a backoff of its own.
    world.until("refused", || world.server.state().refusals.is_empty()).await;
    world.take_requests();
    world.clock.advance(Duration::from_secs(59));
    world.quiesce().await;
    assert_eq!(world.take_requests(), "");
    world.clock.advance(Duration::from_secs(1));
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn a_watch_that_is_closed_early_is_an_error_the_second_time_in_a_row() {
    let world = watching().await;
    world.server.put("a", "blue");
    world.until_cache_equals_server().await;
    let status = world.informer.reflector_status();
    let failures = || (status.borrow().failures, status.borrow().last_error.clone());
    let (before, _) = failures();
    let cut = async || {
        world.until("open", || status.borrow().phase == ReflectorPhase::Watching).await;
        world.server.cut();
        world.quiesce().await;
        failures()
    };
    assert_eq!(cut().await, (before, None), "a watch with an event was not closed early");
    assert_eq!(cut().await, (before + 1, None), "as after a change of its CRD");
    assert_eq!(cut().await, (before + 2, Some("the watch was closed early".to_owned())));
    world.stop().await;
}

#[tokio::test]
async fn the_delay_grows_while_a_server_refuses() {
    let world = watching().await;
    world.server.state().refusals.extend(vec![Status::unauthorized(); 20]);
    world.server.restart();
    world.quiesce().await;
    world.take_requests();
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1));
        world.quiesce().await;
    }
    let requests = world.take_requests().split(' ').count();
    assert!((5..15).contains(&requests), "{requests} requests in 100 s");
    assert!(
        world
            .informer
            .reflector_status()
            .borrow()
            .last_error
            .as_ref()
            .unwrap()
            .contains("Unauthorized")
    );
    world.until("accepted", || world.server.state().refusals.is_empty()).await;
    world.server.put("d", "red");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.informer.reflector_status().borrow().last_error, None);
    world.stop().await;
}

#[tokio::test]
async fn the_objects_of_a_deleted_crd_are_deleted_and_the_crd_may_return() {
    let world = watching().await;
    let recorder = world.record();
    world.server.state().absent = true;
    world.server.restart();
    world.until("empty", || world.cached().is_empty()).await;
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "i+a i+b i+c xa xb xc");
    world.server.state().objects.clear();
    world.server.state().absent = false;
    world.server.put("new", "red");
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(recorder.take_events(), "+new");
    world.stop().await;
}

#[tokio::test]
async fn a_temporary_404_deletes_no_objects() {
    let world = watching().await;
    let wait = async |seconds: u64| {
        for _ in 0..seconds {
            world.clock.advance(Duration::from_secs(1));
            world.quiesce().await;
        }
    };
    for _ in 0..3 {
        world.server.state().absent = true;
        world.server.restart();
        wait(25).await;
        // The resource exists again, but the server refuses.
        world.server.state().absent = false;
        world.server.state().refusals.push_back(Status::unavailable("starting"));
        world.until("refused", || world.server.state().refusals.is_empty()).await;
    }
    assert_eq!(world.cached(), world.on_server());
    assert_eq!(world.cached().len(), 3);
    world.until_cache_equals_server().await;
    world.stop().await;
}

#[tokio::test]
async fn a_resource_that_never_existed_has_not_synced() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.state().absent = true;
    world.informer.start();
    for _ in 0..20 {
        world.clock.advance(Duration::from_secs(30));
        world.quiesce().await;
    }
    assert!(!world.informer.has_synced().get());
    world.server.state().absent = false;
    world.until_cache_equals_server().await;
    world.stop().await;
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let world = watching().await;
    world.server.state().faults.push_back(Fault::Silent(0));
    world.server.restart();
    world.until("silent", || world.server.state().faults.is_empty()).await;
    world.server.put("d", "red");
    world.quiesce().await;
    assert!(!world.cached().contains_key("d"));
    world.until_cache_equals_server().await;
    world.stop().await;
}

#[tokio::test]
async fn a_list_whose_token_expires_is_requested_without_pages() {
    let world = TestWorld::new(&Entropy::seeded(1));
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world.server.state().expiring_tokens = 1;
    world.informer.start();
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch list list list-all watch");
    world.stop().await;
}

#[tokio::test]
async fn a_failed_list_without_pages_is_followed_by_one_in_pages() {
    let world = streaming(InitialEvents::Refused);
    world.server.state().expiring_tokens = 1;
    world.informer.start();
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch list list");
    world.server.state().refusals.push_back(Status::internal("too large"));
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.take_requests(), "list-all list list watch");
    world.stop().await;
}

#[tokio::test]
async fn a_change_between_two_pages_is_delivered() {
    let world = streaming(InitialEvents::Refused);
    world.server.state().write_between_pages = Some(("a", "blue"));
    world.informer.start();
    world.until_cache_equals_server().await;
    world.quiesce().await;
    assert_eq!(world.take_requests(), "watch list list watch");
    world.stop().await;
}
