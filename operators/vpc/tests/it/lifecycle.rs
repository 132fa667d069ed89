//! An operator that restarts, and that is down while objects are changed and deleted.

use vpc_operator::{Network, Options, Vpc, add_to};

use crate::installation::{LIMIT, Operator, client_of, install, strict};
use crate::world::{NETWORKS, World, documents, shop};
use cluster::{Cluster, ClusterConfig};
use machinery::json;
use runtime::{ManagerOptions, prelude::*};
use testenv::TestEnv;

#[tokio::test]
async fn changes_while_the_operator_is_down_are_made_up_for() {
    let mut world = World::without_operator(TestEnv::builder()).await;
    world.create("10.0.0.0/16", 4).await;
    world.start_operator();
    world.settle().await;
    world.kill_operator().await;
    world.env.delete(&format!("{NETWORKS}/shop-0")).await;
    world.change(&json!({"subnetnum": 3})).await;
    world.start_operator();
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.0.0.0/18 10.0.64.0/18 10.0.128.0/18");
    assert_eq!(world.status().await["subnetnum"], 3);
    world.stop().await;
}

#[tokio::test]
async fn edits_by_others_conflict_with_no_write_of_the_operator() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 1).await;
    for number in 0..30 {
        world.change(&json!({"subnetnum": number % 9 + 1})).await;
        let path = format!("{NETWORKS}/shop-0");
        let patch = json!({"metadata": {"labels": {"n": number.to_string()}},
            "spec": {"gateway": "10.0.0.7"}});
        world.env.patch(&path, testenv::media_type::MERGE_PATCH, &patch).await;
        world.env.delete(&format!("{NETWORKS}/shop-1")).await;
    }
    let retries = async {
        // The clock stands still: a retry after a conflict is due when it advances.
        loop {
            world.env.advance(std::time::Duration::from_secs(1));
            let status = world.status().await;
            if status["subnetnum"] == 3 && world.networks().await.len() == 3 {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, retries).await.unwrap();
    world.settle().await;
    assert_eq!(world.networks().await["shop-0"].spec.gateway, "10.0.0.1");
    assert_eq!(world.ready().await, "True SubnetsReady");
    world.stop().await;
}

#[tokio::test]
async fn networks_of_a_vpc_that_is_deleted_while_the_operator_is_down_are_deleted() {
    let mut config = ClusterConfig::default();
    strict(&mut config.server);
    let cluster = Cluster::start(config).await.unwrap();
    let admin = Client::new(cluster.server().in_process_client(), "default");
    install(&admin, &documents()).await;
    let start_operator = || {
        let client = client_of(cluster.server(), "vpc-operator");
        Operator::start(client, ManagerOptions::default(), |manager| {
            add_to(manager, &Options::default());
        })
    };
    let (vpcs, networks) = (admin.api_in::<Vpc>("default"), admin.api_in::<Network>("default"));
    let vpc: Vpc = serde_json::from_value(shop("10.0.0.0/16", 3)).unwrap();
    let operator = start_operator();
    vpcs.create(&PostParams::default(), &vpc).await.unwrap();
    wait_for(&networks, 3).await;
    operator.kill().await;

    vpcs.delete("shop", &DeleteParams::default()).await.unwrap();
    wait_for(&networks, 0).await;
    let operator = start_operator();
    operator.manager.settled(LIMIT).await.unwrap();
    wait_for(&networks, 0).await;
    vpcs.create(&PostParams::default(), &vpc).await.unwrap();
    wait_for(&networks, 3).await;
    vpcs.delete("shop", &DeleteParams::foreground()).await.unwrap();
    wait_for(&networks, 0).await;
    operator.stop().await;
    cluster.stop().await.unwrap();
}

/// Waits until there is this number of Networks.
async fn wait_for(networks: &Api<Network>, count: usize) {
    let polling = async {
        while networks.list(&ListParams::default()).await.unwrap().items.len() != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.expect("the Networks are as expected");
}
