//! How listing and watching goes on after each kind of failure.

use std::time::Duration;

use keel::Entropy;
use machinery::Status;

use crate::{
    server::{Fault, InitialEvents},
    world::TestWorld,
};

/// A world with three objects, listed and watched.
async fn watching() -> TestWorld {
    let world = TestWorld::new(&Entropy::seeded(1));
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world.informer.start();
    world.until_equal().await;
    world.quiesce().await;
    world
}

#[tokio::test]
async fn a_list_comes_in_pages_if_the_server_does_not_stream_it() {
    let world = watching().await;
    assert_eq!(world.take_log(), "watch list list watch");
    assert_eq!(world.informer.reflector_status().borrow().lists, 1);
    world.stop().await;
}

#[tokio::test]
async fn an_event_moves_the_report_and_wakes_nobody_who_waits_for_one() {
    let world = watching().await;
    let mut report = world.informer.reflector_status();
    let before = report.borrow_and_update().resource_version.clone();
    world.server.put("a", "blue");
    world.until_equal().await;
    world.quiesce().await;
    assert!(!report.has_changed().unwrap());
    assert_ne!(report.borrow().resource_version, before);
    world.stop().await;
}

#[tokio::test]
async fn a_list_comes_in_the_watch_if_the_server_streams_it() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.world().initial_events = InitialEvents::Sent;
    world.server.put("a", "red");
    world.informer.start();
    world.until_equal().await;
    world.server.put("b", "red");
    world.until_equal().await;
    assert_eq!(world.take_log(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_ignores_the_wish_for_a_stream_or_fails_at_it_is_listed() {
    for answer in [InitialEvents::Endless, InitialEvents::Broken] {
        let world = TestWorld::new(&Entropy::seeded(1));
        world.server.world().initial_events = answer;
        world.server.put("a", "red");
        world.informer.start();
        world.until_equal().await;
        world.quiesce().await;
        assert_eq!(world.take_log(), "watch list watch");
        world.stop().await;
    }
}

/// A server that was never started, with three objects and this answer to the wish for a stream.
fn streaming(answer: InitialEvents) -> TestWorld {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.world().initial_events = answer;
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world
}

#[tokio::test]
async fn a_stream_without_an_end_is_noticed_however_much_happens_meanwhile() {
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
        world.until_equal().await;
        world.stop().await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_before_its_end_is_not_asked_for_again() {
    let world = streaming(InitialEvents::Sent);
    world.server.world().faults.push_back(Fault::Cut(2));
    world.informer.start();
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(world.take_log(), "watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn streams_that_fail_again_and_again_are_replaced_by_a_list() {
    let world = streaming(InitialEvents::Sent);
    world.server.world().faults.extend([Fault::Truncated(1); 3]);
    world.informer.start();
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(world.take_log(), "watch watch watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn an_object_without_a_name_is_counted_and_passed_over() {
    for answer in [InitialEvents::Sent, InitialEvents::Refused] {
        let world = streaming(answer);
        world.server.put_nameless();
        world.informer.start();
        world.until_equal().await;
        world.quiesce().await;
        world.take_log();
        world.server.put_nameless();
        world.server.put("d", "red");
        world.until_equal().await;
        assert_eq!(world.take_log(), "", "the watch goes on");
        assert_eq!(world.informer.reflector_status().borrow().bad_items, 2);
        world.stop().await;
    }
}

#[tokio::test]
async fn a_place_from_which_the_server_cannot_go_on_is_left_by_a_list() {
    let world = watching().await;
    world.server.world().refusals.push_back(Status::bad_request("no such version"));
    world.server.cut();
    world.until("listed at once", || world.informer.reflector_status().borrow().lists == 2).await;
    world.quiesce().await;
    world.server.world().faults.extend([Fault::Failed(0); 3]);
    world.server.cut();
    world.take_log();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 3).await;
    assert_eq!(world.take_log(), "watch watch watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_does_not_say_which_state_it_lists_is_watched_all_the_same() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.world().hides_versions = true;
    for name in ["c", "a", "b"] {
        world.server.put(name, "red");
    }
    world.informer.start();
    world.until_equal().await;
    world.server.put("d", "red");
    world.until_equal().await;
    world.server.delete("a");
    world.until_equal().await;
    assert_eq!(world.take_log(), "watch list list watch");
    world.stop().await;
}

#[tokio::test]
async fn a_watch_that_was_cut_goes_on_where_it_was() {
    let world = watching().await;
    world.server.world().faults.push_back(Fault::Cut(1));
    world.server.restart();
    world.quiesce().await;
    world.take_log();
    for name in ["d", "e"] {
        world.server.put(name, "red");
        world.until_equal().await;
    }
    assert!(!world.take_log().contains("list"));
    world.stop().await;
}

#[tokio::test]
async fn a_line_that_was_cut_off_is_asked_for_again() {
    let world = watching().await;
    world.server.world().faults.push_back(Fault::Truncated(0));
    world.server.restart();
    world.until("watching again", || world.server.world().faults.is_empty()).await;
    world.take_log();
    world.server.put("d", "red");
    world.until_equal().await;
    assert_eq!(world.take_log(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn history_that_is_gone_is_made_up_for_by_a_list() {
    let world = watching().await;
    let recorder = world.record();
    world.quiesce().await;
    assert_eq!(recorder.take_story(), "i+a i+b i+c");
    world.server.world().absent = true;
    world.server.restart();
    world.server.delete("a");
    world.server.put("b", "blue");
    world.server.compact();
    world.server.world().absent = false;
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(recorder.take_story(), "~b xa");
    world.stop().await;
}

#[tokio::test]
async fn an_error_event_with_410_leads_to_a_list() {
    let world = watching().await;
    world.server.world().faults.push_back(Fault::Expired(0));
    world.server.restart();
    world.take_log();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 2).await;
    world.stop().await;
}

#[tokio::test]
async fn a_server_from_an_older_backup_is_believed() {
    let world = watching().await;
    world.observe_write(world.server.put("own", "red"));
    world.server.restore(&Entropy::seeded(3));
    world.until_equal().await;
    world.server.put("own", "red");
    world.until_equal().await;
    world.stop().await;
}

#[tokio::test]
async fn events_that_come_again_lead_to_a_list_and_are_not_told_again() {
    let world = watching().await;
    let recorder = world.record();
    world.server.put("a", "blue");
    world.server.put("a", "red");
    world.until_equal().await;
    world.quiesce().await;
    recorder.take_story();
    world.server.world().faults.push_back(Fault::Replayed(2));
    world.server.cut();
    world.until("listed again", || world.informer.reflector_status().borrow().lists == 2).await;
    world.quiesce().await;
    assert_eq!(recorder.take_story(), "");
    assert_eq!(world.cached(), world.on_server());
    world.stop().await;
}

#[tokio::test]
async fn events_in_the_wrong_order_lead_to_a_list() {
    let world = watching().await;
    world.server.world().faults.push_back(Fault::Reordered(0));
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
async fn a_server_that_asks_for_patience_gets_it() {
    let world = watching().await;
    world.server.world().refusals.push_back(Status::too_many_requests("slow down", 60));
    world.server.restart();
    world.quiesce().await;
    // The watch was closed in vain, which has a back-off of its own.
    world.until("refused", || world.server.world().refusals.is_empty()).await;
    world.take_log();
    world.clock.advance(Duration::from_secs(59));
    world.quiesce().await;
    assert_eq!(world.take_log(), "");
    world.clock.advance(Duration::from_secs(1));
    world.quiesce().await;
    assert_eq!(world.take_log(), "watch");
    world.stop().await;
}

#[tokio::test]
async fn a_server_that_keeps_refusing_is_asked_less_and_less() {
    let world = watching().await;
    world.server.world().refusals.extend(vec![Status::unauthorized(); 20]);
    world.server.restart();
    world.quiesce().await;
    world.take_log();
    for _ in 0..100 {
        world.clock.advance(Duration::from_secs(1));
        world.quiesce().await;
    }
    let asked = world.take_log().split(' ').count();
    assert!((5..15).contains(&asked), "asked {asked} times in 100 s");
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
    world.until("accepted", || world.server.world().refusals.is_empty()).await;
    world.server.put("d", "red");
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(world.informer.reflector_status().borrow().last_error, None);
    world.stop().await;
}

#[tokio::test]
async fn a_definition_that_disappears_takes_its_objects_with_it_and_may_come_back() {
    let world = watching().await;
    let recorder = world.record();
    world.server.world().absent = true;
    world.server.restart();
    world.until("empty", || world.cached().is_empty()).await;
    world.quiesce().await;
    assert_eq!(recorder.take_story(), "i+a i+b i+c xa xb xc");
    world.server.world().objects.clear();
    world.server.world().absent = false;
    world.server.put("new", "red");
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(recorder.take_story(), "+new");
    world.stop().await;
}

#[tokio::test]
async fn objects_are_not_gone_because_somebody_says_so_for_a_while() {
    let world = watching().await;
    let wait = async |seconds: u64| {
        for _ in 0..seconds {
            world.clock.advance(Duration::from_secs(1));
            world.quiesce().await;
        }
    };
    for _ in 0..3 {
        world.server.world().absent = true;
        world.server.restart();
        wait(25).await;
        // It is there again, but not well.
        world.server.world().absent = false;
        world.server.world().refusals.push_back(Status::unavailable("starting"));
        world.until("refused", || world.server.world().refusals.is_empty()).await;
    }
    assert_eq!(world.cached(), world.on_server());
    assert_eq!(world.cached().len(), 3);
    world.until_equal().await;
    world.stop().await;
}

#[tokio::test]
async fn a_resource_that_was_never_there_does_not_count_as_listed() {
    let world = TestWorld::new(&Entropy::seeded(1));
    world.server.world().absent = true;
    world.informer.start();
    for _ in 0..20 {
        world.clock.advance(Duration::from_secs(30));
        world.quiesce().await;
    }
    assert!(!world.informer.has_synced().get());
    world.server.world().absent = false;
    world.until_equal().await;
    world.stop().await;
}

#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let world = watching().await;
    world.server.world().faults.push_back(Fault::Silent(0));
    world.server.restart();
    world.until("silent", || world.server.world().faults.is_empty()).await;
    world.server.put("d", "red");
    world.quiesce().await;
    assert!(!world.cached().contains_key("d"));
    world.until_equal().await;
    world.stop().await;
}

#[tokio::test]
async fn a_list_whose_token_expires_is_taken_in_one_piece() {
    let world = TestWorld::new(&Entropy::seeded(1));
    for name in ["a", "b", "c"] {
        world.server.put(name, "red");
    }
    world.server.world().expiring_tokens = 1;
    world.informer.start();
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(world.take_log(), "watch list list list-all watch");
    world.stop().await;
}

#[tokio::test]
async fn a_list_in_one_piece_that_fails_is_followed_by_one_in_pages() {
    let world = streaming(InitialEvents::Refused);
    world.server.world().expiring_tokens = 1;
    world.informer.start();
    world.quiesce().await;
    assert_eq!(world.take_log(), "watch list list");
    world.server.world().refusals.push_back(Status::internal("too large"));
    world.until_equal().await;
    world.quiesce().await;
    assert_eq!(world.take_log(), "list-all list list watch");
    world.stop().await;
}
