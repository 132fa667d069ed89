//! Random requests, pods that end in different ways, and an operator that is killed and restarted:
//! there are never too many pods, and in the end as many as requested.

use crate::observer::Observer;
use crate::seeded::{for_seeds, pick};
use crate::world::World;
use keel::Entropy;
use runtime::kube_core::params::ListParams;

const ROUNDS: usize = 12;

#[test]
fn a_random_walk_never_creates_too_many_pods() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for_seeds(6, |entropy| runtime.block_on(walk(&entropy)));
}

async fn walk(entropy: &Entropy) {
    let mut world = World::new(entropy.next_u64()).await;
    let mut observer = Observer::new(&world, 1).await;
    world.start_operator();
    for _ in 0..ROUNDS {
        for _ in 0..entropy.below(6) {
            step(entropy, &mut world, &mut observer).await;
        }
        observer.settle(&world).await;
    }
    world.finish_deletions().await;
    let pods = world.pods().list(&ListParams::default()).await.unwrap();
    let named = |name: &str| observer.live().iter().any(|live| live == name);
    let live = pods.iter().filter(|pod| named(pod.metadata.name.as_deref().unwrap()));
    assert_eq!(live.count(), observer.live().len());
    world.stop().await;
}

async fn step(entropy: &Entropy, world: &mut World, observer: &mut Observer) {
    let known: Vec<String> = observer.known.keys().cloned().collect();
    let pod = if known.is_empty() {
        "none"
    } else {
        pick(entropy, &known.iter().map(String::as_str).collect::<Vec<_>>())
    };
    match entropy.below(7) {
        0 | 1 => {
            let replicas = usize::try_from(entropy.below(101)).unwrap();
            observer.record_desired_replicas(world.scale(replicas).await, replicas);
        }
        2 => world.set_phase(pod, "Running").await,
        3 => world.set_phase(pod, pick(entropy, &["Failed", "Succeeded"])).await,
        4 => world.delete(pod).await,
        5 => world.finish_deletions().await,
        _ => {
            world.kill_operator().await;
            world.start_operator();
        }
    }
    // Lets the operator make progress, not always to the end.
    for _ in 0..entropy.below(200) {
        tokio::task::yield_now().await;
    }
}
