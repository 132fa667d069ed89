//! Random changes, and an operator that is killed and restarted: no two Networks ever have the same
//! address, and in the end they are as requested.

use std::collections::BTreeMap;

use vpc_operator::Cidr;

use crate::seeded::{for_seeds, pick};
use crate::world::{NETWORKS, World};
use keel::Entropy;
use machinery::json;
use testenv::{TestEnv, Watch};

const ROUNDS: usize = 12;
const BLOCKS: [&str; 4] = ["10.0.0.0/20", "10.0.0.0/24", "10.0.0.128/25", "10.0.8.0/22"];

#[test]
fn a_random_walk_never_makes_networks_overlap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for_seeds(6, |entropy| {
        runtime.block_on(async {
            let builder = TestEnv::builder().seed(entropy.next_u64()).system_clock();
            walk(&entropy, World::without_operator(builder).await).await;
        });
    });
}

#[test]
fn a_random_walk_with_the_network_operator_never_makes_networks_overlap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for_seeds(4, |entropy| {
        runtime.block_on(async {
            let builder = TestEnv::builder().seed(entropy.next_u64()).system_clock();
            walk(&entropy, World::with_network_operator(builder).await).await;
        });
    });
}

#[tokio::test]
async fn a_vpc_moves_to_the_addresses_of_its_deleted_networks() {
    let builder = TestEnv::builder().system_clock();
    let mut world = World::with_network_operator(builder).await;
    world.start_operator();
    world.create("10.0.0.0/16", 16).await;
    world.settle().await;
    world.change(&json!({"cidrblock": "10.0.128.0/17", "subnetnum": 1})).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.0.128.0/17");
    assert_eq!(world.warnings().await, [""; 0]);
    world.stop().await;
}

async fn walk(entropy: &Entropy, mut world: World) {
    let watch = world.env.watch(&format!("{NETWORKS}?watch=1")).await;
    let mut observer = Observer { watch, networks: BTreeMap::new() };
    world.create(BLOCKS[0], 2).await;
    world.start_operator();
    let (mut block, mut count) = (BLOCKS[0], 2);
    for _ in 0..ROUNDS {
        for _ in 0..entropy.below(6) {
            match entropy.below(7) {
                0 | 1 => {
                    count = usize::try_from(entropy.below(17)).unwrap();
                    world.change(&json!({"subnetnum": count})).await;
                }
                2 => {
                    block = pick(entropy, &BLOCKS);
                    world.change(&json!({"cidrblock": block})).await;
                }
                3 | 4 => {
                    count = usize::try_from(entropy.below(17)).unwrap();
                    block = pick(entropy, &BLOCKS);
                    world.change(&json!({"cidrblock": block, "subnetnum": count})).await;
                }
                5 => {
                    let number = entropy.below(16);
                    world.env.delete(&format!("{NETWORKS}/shop-{number}")).await;
                }
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
        world.settle().await;
        let networks = world.networks().await;
        observer.read_until(networks.len(), block).await;
        let names: Vec<_> = networks.keys().cloned().collect();
        let mut expected: Vec<_> = (0..count).map(|number| format!("shop-{number}")).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        for network in networks.values() {
            let cidr: Cidr = network.spec.cidr.parse().unwrap();
            assert!(block.parse::<Cidr>().unwrap().contains(cidr), "{cidr} is not in {block}");
            assert_eq!(network.spec.gateway, cidr.gateway().to_string());
        }
        assert_eq!(world.status().await["subnetnum"], count);
        assert_eq!(world.ready().await, "True SubnetsReady");
    }
    assert_eq!(world.warnings().await, [""; 0]);
    world.stop().await;
}

/// Checks after every event that no Networks overlap.
struct Observer {
    watch: Watch,
    networks: BTreeMap<String, Cidr>,
}

impl Observer {
    /// Reads events until this number of Networks exists, all of them in `block`.
    async fn read_until(&mut self, count: usize, block: &str) {
        let block: Cidr = block.parse().unwrap();
        while self.networks.len() != count
            || !self.networks.values().all(|cidr| block.contains(*cidr))
        {
            let (event_type, network) = self.watch.next().await.unwrap();
            let name = network["metadata"]["name"].as_str().unwrap().to_owned();
            self.networks.remove(&name);
            if event_type == "DELETED" {
                continue;
            }
            let cidr: Cidr = network["spec"]["cidr"].as_str().unwrap().parse().unwrap();
            let overlapping = self.networks.iter().find(|(_, other)| other.overlaps(cidr));
            assert!(overlapping.is_none(), "{name} {cidr} {overlapping:?}");
            self.networks.insert(name, cidr);
        }
    }
}
