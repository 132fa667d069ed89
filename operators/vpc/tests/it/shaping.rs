//! The Networks of a Vpc: created, changed, deleted, and put right.

use std::time::Duration;

use vpc_operator::{Network, Vpc};

use crate::installation::LIMIT;
use crate::world::{EVENTS, NETWORKS, VPCS, World, shop};
use machinery::{Value, json};
use runtime::informer::Item;
use runtime::{owner, prelude::*};
use testenv::TestEnv;

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
    assert_eq!(world.ready().await, "True SubnetsReady");
    world.stop().await;
}

#[tokio::test]
async fn a_vpc_is_ready_when_its_networks_are() {
    let world = World::new().await;
    let settled = async || world.manager().settled(LIMIT).await.unwrap();
    world.create("10.0.0.0/16", 4).await;
    settled().await;
    let expected = "False NetworksNotReady not ready: shop-0, shop-1, shop-2 and others";
    assert_eq!(world.ready().await, expected);
    assert_eq!(world.status().await["subnetnum"], 4);

    let networks = world.networks().await;
    for name in ["shop-0", "shop-2"] {
        world.report(&networks[name], "True").await;
    }
    settled().await;
    assert_eq!(world.ready().await, "False NetworksNotReady not ready: shop-1, shop-3");
    world.settle().await;
    assert_eq!(world.ready().await, "True SubnetsReady");

    world.report(&networks["shop-1"], "False").await;
    settled().await;
    assert_eq!(world.ready().await, "False NetworksNotReady not ready: shop-1");
    // A condition of an older generation says nothing about the present spec.
    world.settle().await;
    world.change(&json!({"cidrblock": "10.0.0.0/17"})).await;
    settled().await;
    assert!(world.ready().await.starts_with("False NetworksNotReady"), "{}", world.ready().await);
    assert_eq!(world.warnings().await, [""; 0]);
    world.stop().await;
}

#[tokio::test]
async fn a_vpc_whose_networks_are_not_ready_is_written_once() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 4).await;
    world.manager().settled(LIMIT).await.unwrap();
    let path = format!("{VPCS}/shop");
    let before = world.env.read(&path).await;
    for network in world.networks().await.values() {
        world.report(network, "Unknown").await;
        world.manager().settled(LIMIT).await.unwrap();
    }
    assert_eq!(world.env.read(&path).await, before);
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
    assert_eq!(world.ready().await, "True SubnetsReady");
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
    let other = json!({"apiVersion": "samplecrd.k8s.io/v2", "kind": "Network",
        "metadata": {"name": "shop-1"}, "spec": spec});
    let other = world.env.create(NETWORKS, &other).await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    assert_eq!(world.ready().await, "False NameTaken another Network has the name shop-1");
    assert_eq!(world.status().await["subnetnum"], 1);
    assert_eq!(world.env.read(&format!("{NETWORKS}/shop-1")).await, other);

    world.env.delete(&format!("{NETWORKS}/shop-1")).await;
    world.settle().await;
    assert_eq!(world.ready().await, "True SubnetsReady");
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
    assert_eq!(world.ready().await, "False WaitingForDeletion the Network shop-1 is being deleted");
    assert_eq!(world.status().await["subnetnum"], 1);
    world.env.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert_eq!(
        (world.networks().await.len(), world.ready().await),
        (2, "True SubnetsReady".to_owned())
    );
    world.stop().await;
}

#[tokio::test]
async fn addresses_of_a_network_that_is_being_deleted_are_waited_for() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    let path = format!("{NETWORKS}/shop-1");
    world.env.merge(&path, &json!({"metadata": {"finalizers": ["example.com/a"]}})).await;
    world.change(&json!({"cidrblock": "10.0.128.0/17", "subnetnum": 1})).await;
    world.settle().await;
    let message = "10.0.128.0/17 overlaps 10.0.128.0/17 of the Network default/shop-1, which is being \
        deleted";
    assert_eq!(world.ready().await, format!("False WaitingForDeletion {message}"));
    assert_eq!(world.cidrs().await, "10.0.0.0/17 10.0.128.0/17");
    assert_eq!(world.status().await["subnetnum"], 1);

    world.env.merge(&path, &json!({"metadata": {"finalizers": null}})).await;
    world.settle().await;
    assert_eq!(world.ready().await, "True SubnetsReady");
    assert_eq!(world.cidrs().await, "10.0.128.0/17");
    assert_eq!(world.warnings().await, [""; 0]);
    world.stop().await;
}

#[tokio::test]
async fn addresses_of_another_vpc_are_waited_for() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 2).await;
    world.settle().await;
    let mut second = shop("10.0.128.0/17", 1);
    second["metadata"]["name"] = json!("second");
    world.env.create(VPCS, &second).await;
    world.settle().await;
    let message = "10.0.128.0/17 overlaps 10.0.128.0/17 of the Network default/shop-1";
    let path = format!("{VPCS}/second");
    let ready = world.env.read(&path).await["status"]["conditions"][0].clone();
    assert_eq!((&ready["reason"], &ready["message"]), (&json!("AddressesTaken"), &json!(message)));
    world.env.until(EVENTS, |_, list| list.to_string().contains(message)).await;
    assert!(world.warnings().await.contains(&format!("AddressesTaken {message}")));

    // The clock stands still: an event wakes the second Vpc, not the end of a delay.
    world.change(&json!({"subnetnum": 1})).await;
    world.settle().await;
    assert_eq!(world.cidrs().await, "10.0.128.0/17 10.0.0.0/17");
    assert_eq!(world.env.read(&path).await["status"]["conditions"][0]["reason"], "SubnetsReady");
    world.stop().await;
}

/// The caches of this operator and of the webhook can both be older than the Networks.
#[tokio::test]
async fn an_overlap_that_only_the_server_sees_is_tried_again_without_a_warning() {
    let world = World::new().await;
    let message = "10.0.128.0/17 overlaps 10.0.128.0/17 of the Network default/shop-7";
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": ["samplecrd.k8s.io"], "apiVersions": ["v2"],
        "resources": ["networks"], "operations": ["CREATE"]});
    let validation = json!({"expression": "object.metadata.name != 'shop-1'", "message": message,
        "reason": "Invalid"});
    let policy = json!({"metadata": {"name": "overlap"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}});
    let binding = json!({"metadata": {"name": "overlap"}, "spec": {
        "policyName": "overlap", "validationActions": ["Deny"]}});
    world.env.create(policies, &policy).await;
    world.env.create(&policies.replace("policies", "policybindings"), &binding).await;
    let probe = json!({"apiVersion": "samplecrd.k8s.io/v2", "kind": "Network",
        "metadata": {"name": "shop-1"}, "spec": {"cidr": "10.1.0.0/16", "gateway": "10.1.0.1"}});
    let refused = async {
        // The policy is in force after some time.
        while world.env.post(&format!("{NETWORKS}?dryRun=All"), &probe).await.0 != 422 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, refused).await.unwrap();
    world.create("10.0.0.0/16", 2).await;
    let pending = |vpc: &Value| vpc["status"]["conditions"][0]["reason"] == "Pending";
    world.env.until(&format!("{VPCS}/shop"), |_, vpc| pending(vpc)).await;
    assert!(world.ready().await.contains(message), "{}", world.ready().await);
    assert_eq!(world.status().await["subnetnum"], 1);

    world.env.delete(&format!("{policies}/overlap")).await;
    world.env.delete(&format!("{}/overlap", policies.replace("policies", "policybindings"))).await;
    let retries = async {
        while world.ready().await != "True SubnetsReady" {
            world.env.advance(Duration::from_secs(1)); // the retry is due
            world.make_networks_ready().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, retries).await.unwrap();
    world.settle().await;
    assert_eq!(world.warnings().await, [""; 0]);
    world.stop().await;
}

#[tokio::test]
async fn a_network_of_another_namespace_that_names_the_uid_is_neither_counted_nor_deleted() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 1).await;
    world.settle().await;
    let mut copy = world.env.read(&format!("{NETWORKS}/shop-0")).await;
    let references = copy["metadata"]["ownerReferences"].clone();
    copy["metadata"] = json!({"name": "shop-1", "ownerReferences": references});
    copy["spec"] = json!({"cidr": "10.7.0.0/16", "gateway": "10.7.0.1"});
    world.env.create("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await;
    let others = NETWORKS.replace("default", "other");
    let created = world.env.create(&others, &copy).await;
    for count in [2, 0] {
        world.change(&json!({"subnetnum": count})).await;
        world.settle().await;
        assert_eq!(world.networks().await.len(), count);
        assert_eq!(world.status().await["subnetnum"], count);
        assert_eq!(world.env.read(&format!("{others}/shop-1")).await, created);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_newer_network_of_the_same_name_is_not_deleted() {
    let world = World::new().await;
    world.create("10.0.0.0/16", 1).await;
    world.settle().await;
    // As if the watch had not delivered yet that the Network was replaced.
    let path = format!("{NETWORKS}/shop-0");
    let mut older = world.env.read(&path).await;
    older["metadata"]["uid"] = json!("6d0a6b3c-0000-0000-0000-000000000000");
    let networks = world.manager().informer::<Network>();
    networks.indexer().insert(Item::parse(older.to_string()).unwrap()).unwrap();
    world.change(&json!({"subnetnum": 0})).await;
    world.wait_for_failure().await;
    assert_eq!(world.cidrs().await, "10.0.0.0/16");

    // The watch delivers it.
    world.env.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.env.advance(Duration::from_mins(1));
    world.settle().await;
    assert!(world.networks().await.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn a_status_that_cannot_be_written_does_not_hide_why_networks_are_missing() {
    const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/vpc-operator";
    let mut world = World::without_operator(TestEnv::builder()).await;
    let quota = json!({"count/networks.samplecrd.k8s.io": "0"});
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": quota}});
    world.env.create("/api/v1/namespaces/default/resourcequotas", &quota).await;
    let mut role = world.env.read(ROLE).await;
    let rules = role["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["resources"] != json!(["vpcs/status"]));
    assert_eq!(world.env.put(ROLE, &role).await.0, 200);
    world.create("10.0.0.0/16", 1).await;
    world.start_operator();
    let failure = world.wait_for_failure().await;
    assert!(failure.contains("exceeded quota: none"), "{failure}");
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
    schema["spec"]["properties"]["subnetnum"]["maximum"] = Value::Null;
    world.env.put(CRD, &crd).await;
    let path = format!("{VPCS}/shop");
    let patch = json!({"spec": {"cidrblock": "10.0.0.0/28", "subnetnum": 9}});
    let accepted = async {
        while world.env.patch(&path, testenv::media_type::MERGE_PATCH, &patch).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, accepted).await.unwrap();
    world.settle().await;
    let message = "10.0.0.0/28 is too small for 9 subnets, each of at least 4 addresses";
    assert_eq!(world.ready().await, format!("False InvalidBlock {message}"));
    assert_eq!(world.cidrs().await, "10.0.0.0/16");
    let is_reported = |list: &Value| {
        let events = list["items"].as_array().unwrap();
        events.iter().any(|event| event["reason"] == "InvalidBlock" && event["message"] == message)
    };
    world.env.until(EVENTS, |_, list| is_reported(list)).await;

    world.change(&json!({"cidrblock": "10.0.0.0/8", "subnetnum": 1_000_000_000_000_u64})).await;
    world.settle().await;
    let message = "1000000000000 subnets are more than 256";
    assert_eq!(world.ready().await, format!("False InvalidBlock {message}"));
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
    assert_eq!(
        (world.networks().await.len(), world.ready().await),
        (3, "True SubnetsReady".to_owned())
    );
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
