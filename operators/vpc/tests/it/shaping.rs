//! The Networks of a Vpc: created, changed, deleted, and put right.

use std::time::Duration;

use vpc_operator::Vpc;

use crate::world::{NETWORKS, VPCS, World};
use machinery::{Value, json};
use runtime::{owner, prelude::*};

const CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vpcs.network.example.com";

#[tokio::test]
async fn a_vpc_has_a_network_for_each_subnet() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 3).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.0.0.0/18 10.0.64.0/18 10.0.128.0/18");
    let vpc: Vpc = serde_json::from_value(world.env.read(&format!("{VPCS}/shop")).await).unwrap();
    let networks = world.networks().await;
    let names: Vec<_> = networks.keys().map(String::as_str).collect();
    assert_eq!(names, ["shop-0", "shop-1", "shop-2"]);
    let last = &networks["shop-2"];
    assert_eq!(last.spec.gateway, "10.0.128.1");
    assert_eq!(last.labels()["network.example.com/vpc"], "shop");
    assert!(owner::is_controlled_by(last, &vpc));
    assert_eq!(world.status().await["subnetnum"], 3);
    assert_eq!(world.ready().await, "True Shaped");
    world.stop().await;
}

#[tokio::test]
async fn a_change_leaves_alone_what_need_not_change() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    let before = world.networks().await;

    world.change(&json!({"subnetnum": 3})).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.0.0.0/17 10.0.128.0/18 10.0.192.0/18");
    assert_eq!(world.networks().await["shop-0"].metadata, before["shop-0"].metadata);
    let (old, new) = (&before["shop-1"], &world.networks().await["shop-1"]);
    assert_eq!((old.uid(), &old.spec.gateway), (new.uid(), &new.spec.gateway));

    world.change(&json!({"subnetnum": 1})).await;
    world.settle().await;
    assert_eq!(world.networks().await.len(), 1);
    assert_eq!(world.networks().await["shop-0"].metadata, before["shop-0"].metadata);

    world.change(&json!({"cidrblock": "10.9.0.0/24", "subnetnum": 2})).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.9.0.0/25 10.9.0.128/25");
    assert_eq!(world.networks().await["shop-0"].uid(), before["shop-0"].uid());

    world.change(&json!({"subnetnum": 0})).await;
    world.settle().await;
    assert!(world.networks().await.is_empty());
    assert_eq!(world.status().await["subnetnum"], 0);
    assert_eq!(world.ready().await, "True Shaped");
    world.stop().await;
}

#[tokio::test]
async fn networks_that_others_change_or_delete_are_put_right() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 3).await;
    world.settle().await;
    let before = world.cidrs().await;
    let wider = json!({"spec": {"cidr": "10.0.0.0/8", "gateway": "10.0.0.9"}});
    world.env.merge(&format!("{NETWORKS}/shop-1"), &wider).await;
    world.env.delete(&format!("{NETWORKS}/shop-0")).await;
    let note = json!({"metadata": {"annotations": {"note": "mine"}, "labels": null}});
    world.env.merge(&format!("{NETWORKS}/shop-2"), &note).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, before);
    let networks = world.networks().await;
    assert_eq!(networks["shop-1"].spec.gateway, "10.0.64.1");
    // What the operator does not decide is left alone.
    assert_eq!(networks["shop-2"].annotations()["note"], "mine");
    assert_eq!(networks["shop-2"].labels()["network.example.com/vpc"], "shop");
    world.stop().await;
}

#[tokio::test]
async fn the_network_of_another_is_not_touched() {
    let world = World::new().await;
    let spec = json!({"cidr": "192.168.0.0/24", "gateway": "192.168.0.1"});
    let other = json!({"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network",
        "metadata": {"name": "shop-1"}, "spec": spec});
    let other = world.env.create(NETWORKS, &other).await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    assert_eq!(world.ready().await, "False NameTaken another Network has the name shop-1");
    assert_eq!(world.status().await["subnetnum"], 1);
    assert_eq!(world.env.read(&format!("{NETWORKS}/shop-1")).await, other);

    world.env.delete(&format!("{NETWORKS}/shop-1")).await;
    world.settle().await;
    assert_eq!(world.ready().await, "True Shaped");
    assert_eq!(world.cidrs().await, "10.0.0.0/17 10.0.128.0/17");
    world.stop().await;
}

#[tokio::test]
async fn a_network_that_is_being_deleted_is_waited_for() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    let path = format!("{NETWORKS}/shop-1");
    world.env.merge(&path, &json!({"metadata": {"finalizers": ["example.com/a"]}})).await;
    world.env.delete(&path).await;
    world.settle().await;
    assert_eq!(world.ready().await, "False Deleting the Network shop-1 is being deleted");
    assert_eq!(world.status().await["subnetnum"], 1);
    world.env.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert_eq!((world.networks().await.len(), world.ready().await), (2, "True Shaped".to_owned()));
    world.stop().await;
}

#[tokio::test]
async fn a_block_that_the_crd_did_not_refuse_is_reported() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 1).await;
    world.settle().await;
    // A CRD of before the rules.
    let mut crd = world.env.read(CRD).await;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    schema["spec"]["x-kubernetes-validations"] = Value::Null;
    world.env.put(CRD, &crd).await;
    let path = format!("{VPCS}/shop");
    let patch = json!({"spec": {"cidrblock": "10.0.0.0/28", "subnetnum": 9}});
    let accepted = async {
        while world.env.patch(&path, testenv::media_type::MERGE_PATCH, &patch).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::installation::LIMIT, accepted).await.unwrap();
    world.settle().await;
    let message = "10.0.0.0/28 is too small for 9 subnets, each of at least 4 addresses";
    assert_eq!(world.ready().await, format!("False InvalidBlock {message}"));
    assert_eq!(world.cidrs().await, "10.0.0.0/16");
    let is_reported = |list: &Value| {
        let events = list["items"].as_array().unwrap();
        events.iter().any(|it| it["reason"] == "InvalidBlock" && it["message"] == message)
    };
    world.env.until("/api/v1/namespaces/default/events", |_, list| is_reported(list)).await;
    world.stop().await;
}

#[tokio::test]
async fn a_network_that_the_server_refuses_is_reported() {
    let world = World::new().await;
    let quota = json!({"count/networks.samplecrd.k8s.io": "2"});
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": quota}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    world.env.create(quotas, &quota).await;
    world.create("10.0.0.0/16", 3).await;
    let failed = |vpc: &Value| vpc["status"]["conditions"][0]["reason"] == "Failed";
    world.env.until(&format!("{VPCS}/shop"), |_, vpc| failed(vpc)).await;
    assert!(world.ready().await.contains("exceeded quota: few"), "{}", world.ready().await);
    assert_eq!(world.status().await["subnetnum"], 2);

    world.env.delete(&format!("{quotas}/few")).await;
    world.env.advance(Duration::from_mins(10)); // the retry is due
    world.settle().await;
    assert_eq!((world.networks().await.len(), world.ready().await), (3, "True Shaped".to_owned()));
    world.stop().await;
}

#[tokio::test]
async fn the_status_names_the_pods_of_the_vpc() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let world = World::new().await;
    world.create("10.0.0.0/16", 1).await;
    world.change(&json!({"vpcname": "market"})).await;
    let spec = json!({"containers": [{"name": "a", "image": "a"}]});
    for (name, vpc) in [("b", "market"), ("a", "market"), ("c", "shop")] {
        let labels = json!({"network.example.com/vpc": vpc});
        world
            .env
            .create(PODS, &json!({"metadata": {"name": name, "labels": labels}, "spec": spec}))
            .await;
    }
    world.env.create(PODS, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    world.settle().await;
    assert_eq!(world.status().await["podNames"], json!(["a", "b"]));
    assert_eq!(world.networks().await["shop-0"].labels()["network.example.com/vpc"], "market");

    let labels = json!({"metadata": {"labels": {"network.example.com/vpc": "shop"}}});
    world.env.merge(&format!("{PODS}/a"), &labels).await;
    world.settle().await;
    assert_eq!(world.status().await["podNames"], json!(["b"]));
    world.change(&json!({"vpcname": ""})).await;
    world.settle().await;
    assert_eq!(world.status().await["podNames"], json!(["a", "c"]));
    world.env.delete(&format!("{PODS}/a")).await;
    world.settle().await;
    assert_eq!(world.status().await["podNames"], json!(["c"]));
    world.stop().await;
}
