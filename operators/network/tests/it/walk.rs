//! A random walk: Networks are created, changed and deleted, and the operator is killed at any step.
//! In the end, a backend has exactly the networks that the API declares.

use serde_json::json;

use crate::world::World;
use machinery::Value;
use network_operator::backend::Backend;
use network_operator::backend::dry_run::DryRun;
use runtime::keel::Entropy;
use testenv::TestEnv;

/// The number of names. Each has 256 CIDRs of its own, so that none overlap.
const NAMES: u64 = 12;

/// The operator is killed after one of this number of changes.
const CHANGES_PER_CRASH: u64 = 8;

/// Makes `changes` random changes, and waits until the operator has nothing left to do.
#[allow(clippy::print_stdout, reason = "shown for a test that fails")]
pub(crate) async fn walk<B: Backend>(seed: u64, changes: usize, backend: B) -> World<B> {
    println!("the seed is {seed}");
    let entropy = Entropy::seeded(seed);
    let builder = TestEnv::builder().seed(seed).system_clock();
    let mut world = World::with(builder, backend).await;
    world.start_operator();
    for _ in 0..changes {
        change(&world, &entropy).await;
        if entropy.below(CHANGES_PER_CRASH) == 0 {
            // Not always while it works: sometimes when it has nothing left to do.
            let steps = entropy.below(30);
            tokio::select! {
                () = world.backend.wait_for_steps(steps) => {}
                () = world.settle() => {}
            }
            world.kill_operator().await;
            if entropy.below(2) == 0 {
                change(&world, &entropy).await;
            }
            world.start_operator();
        }
    }
    world.settle().await;
    world
}

async fn change<B: Backend>(world: &World<B>, entropy: &Entropy) {
    let name = entropy.below(NAMES);
    let (third, host) = (entropy.below(4), 1 + entropy.below(254));
    let (cidr, gateway) = (format!("10.{name}.{third}.0/24"), format!("10.{name}.{third}.{host}"));
    let name = format!("n{name}");
    let existing = world.declared().await.remove(&name);
    match (existing, entropy.below(4)) {
        (Some(_), 0) => world.delete(&name).await,
        // Only the gateway.
        (Some((cidr, _)), 1 | 2) => {
            let gateway = cidr.replace("0/24", &host.to_string());
            world.change(&name, &json!({"gateway": gateway})).await;
        }
        (Some(_), _) => world.change(&name, &json!({"cidr": cidr, "gateway": gateway})).await,
        (None, _) => drop(world.create(&name, &cidr, &gateway).await),
    }
}

/// The declared networks in the form in which the tests of backends list theirs.
pub(crate) async fn declared<B: Backend>(world: &World<B>) -> Vec<Value> {
    let declared = world.declared().await;
    assert!(!declared.is_empty());
    declared.iter().map(|(name, (cidr, gateway))| json!([name, cidr, gateway])).collect()
}

#[tokio::test]
async fn a_random_walk_leaves_exactly_the_declared_networks() {
    for seed in 0..5 {
        let world = walk(seed, 200, DryRun::default()).await;
        let networks = world.backend.inner.networks().clone();
        let found: Vec<_> = networks
            .iter()
            .map(|(mark, network)| {
                let name = mark.rsplit(':').next().unwrap();
                json!([name, network.cidr().to_string(), network.gateway().to_string()])
            })
            .collect();
        assert_eq!(found, declared(&world).await, "seed {seed}");
        world.stop().await;
    }
}
