//! Random faults; after the last fault the cache equals the server, and the last notification of
//! every handler has the final state.

use std::sync::Arc;
use std::time::Duration;

use crate::recorder::Recorder;
use crate::seeded::{for_seeds, pick};
use crate::server::Fault;
use crate::server::InitialEvents::{Broken, Endless, Refused, Sent};
use crate::world::TestWorld;
use informer::write_observer::WriteObserver;
use informer::{
    HandlerOptions, InformerOptions, Item, ObjectEvent, ReflectorOptions, Selection, Subscription,
};
use keel::Entropy;
use machinery::selector::LabelSelector;
use machinery::{GroupResource, Status};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn after_the_last_fault_cache_and_handlers_equal_the_server() {
    for_seeds(120, |entropy| run(run_random_steps(&entropy, InformerOptions::default())));
}

#[test]
fn objects_that_enter_and_leave_the_scope_are_cached_correctly() {
    for_seeds(60, |entropy| {
        let labels = LabelSelector::parse("color in (red,blue)").unwrap();
        let selection = Selection { labels, ..Selection::default() };
        run(run_random_steps(
            &entropy,
            InformerOptions { selection, ..InformerOptions::default() },
        ));
    });
}

fn run(run_random_steps: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(run_random_steps);
}

async fn run_random_steps(entropy: &Entropy, options: InformerOptions) {
    let reflector = ReflectorOptions { page_size: 2, ..ReflectorOptions::default() };
    let world = TestWorld::with(entropy, InformerOptions { reflector, ..options });
    world.server.state().initial_events =
        pick(entropy, &[Sent, Sent, Refused, Refused, Broken, Endless]);
    let early = world.record();
    let resynced = if entropy.below(2) == 0 { Recorder::new() } else { Recorder::inline() };
    let resync_period = Some(Duration::from_secs(1 + entropy.below(300)));
    let handler: Arc<Recorder> = Arc::clone(&resynced);
    world
        .informer
        .add_handler(handler, &HandlerOptions { resync_period, ..HandlerOptions::default() });
    let slow = world.informer.subscribe(&HandlerOptions {
        queue_capacity: usize::try_from(entropy.below(4)).unwrap(),
        ..HandlerOptions::default()
    });
    world.informer.start();
    let mut late = None;
    // Responses to writes that have not arrived yet.
    let mut responses = Vec::new();
    for step in 0..120 {
        write_or_fail(&world, entropy, &mut responses).await;
        if step == 60 {
            late = Some(world.record());
        }
        for _ in 0..entropy.below(60) {
            tokio::task::yield_now().await;
        }
        if entropy.below(4) == 0
            && let Some(deadline) = world.clock.next_deadline()
        {
            world.clock.advance(deadline.since(world.clock.now()));
        }
    }
    for response in responses {
        world.observe_write(response);
    }
    {
        let mut server = world.server.state();
        server.absent = false;
        server.faults.clear();
        server.expiring_tokens = 0;
        server.refusals.clear();
    }
    // A watch with the fault `Silent` ends only by its timeout. Until then, this write keeps the cache
    // different from the server.
    world.server.put("last", "red");
    let final_state = world.on_server();
    let late = late.expect("it was added at step 60");
    world
        .until("equal to the server", || {
            world.cached() == final_state
                && early.state() == final_state
                && resynced.state() == final_state
                && late.state() == final_state
        })
        .await;
    assert_eq!(catch_up(slow).await.state(), final_state, "the slow handler");
    world.stop().await;
}

/// Makes one random write, or causes a random fault.
async fn write_or_fail(world: &TestWorld, entropy: &Entropy, responses: &mut Vec<Item>) {
    let (server, name) = (&world.server, pick(entropy, &NAMES));
    let color = pick(entropy, &["red", "green", "blue"]);
    let after = entropy.below(4);
    match entropy.below(48) {
        0..16 => drop(server.put(name, color)),
        16..22 => drop(server.delete(name)),
        22..25 => {
            let written = server.put(name, color);
            world.observe_write(written.clone());
            let known = world.informer.indexer().get(written.key());
            let is_selected = world.options.selection.selects(&written) == Some(true);
            let is_cached = known.is_some_and(|known| known.is_same_state(&written));
            // After a backup was restored, the new versions are lower than the cached ones until the
            // next list.
            let is_comparable = !server.state().was_restored;
            assert!(
                is_cached || !is_selected || !is_comparable,
                "the next read does not show the write"
            );
        }
        25 => {
            if let Some(deleted) = server.delete(name) {
                WriteObserver::new(&world.informer).observe_deletion(deleted.key(), deleted.uid());
                let known = world.informer.indexer().get(deleted.key());
                assert!(known.is_none_or(|known| known.uid() != deleted.uid()));
            }
        }
        26 => server.compact(),
        27 if entropy.below(2) == 0 => server.restart(),
        27 => server.cut(),
        28 if entropy.below(3) == 0 => {
            server.restore(entropy);
            // The responses of the replaced server are lost.
            responses.clear();
        }
        29 => {
            let mut server = server.state();
            server.absent = !server.absent;
        }
        30..32 => {
            let resource = GroupResource::new("", "things");
            let statuses = [
                Status::unauthorized(),
                Status::forbidden(&resource, "", "no"),
                Status::too_many_requests("slow down", 7),
                Status::internal("oops"),
                Status::unavailable("later"),
                Status::expired("too old"),
            ];
            let chosen = usize::try_from(entropy.below(6)).unwrap();
            server.state().refusals.push_back(statuses[chosen].clone());
        }
        32..36 => responses.push(server.put(name, color)),
        38 => server.state().expiring_tokens += 1,
        39 => server.put_nameless(),
        36..38 if !responses.is_empty() => {
            let next = usize::try_from(entropy.below(responses.len() as u64)).unwrap();
            world.observe_write(responses.swap_remove(next));
        }
        _ => {
            let fault = pick(
                entropy,
                &[
                    Fault::Cut(after),
                    Fault::Truncated(after),
                    Fault::Expired(after),
                    Fault::Failed(after),
                    Fault::Replayed(after),
                    Fault::Reordered(after),
                    Fault::Silent(after),
                ],
            );
            server.state().faults.push_back(fault);
        }
    }
}

/// Takes all waiting events of a subscription.
async fn catch_up(mut slow: Subscription) -> Arc<Recorder> {
    let recorder = Recorder::new();
    let next = async |slow: &mut Subscription| -> Option<ObjectEvent> {
        tokio::select! {
            biased;
            event = slow.next() => event,
            () = std::future::ready(()) => None,
        }
    };
    while let Some(event) = next(&mut slow).await {
        event.dispatch(&*recorder);
    }
    recorder
}
