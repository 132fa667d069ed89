//! The CRD, and what its rules refuse.

use vpc_operator::{Vpc, manifests};

use crate::installation::decode;
use crate::user_roles::{self, Kind};
use crate::world::{VPCS, World, shop};
use machinery::json;
use runtime::versions::CustomResourceDefinition;
use runtime::{crd, prelude::*};
use testenv::TestEnv;

const RESERVED: &str =
    "must not overlap unspecified, loopback, link-local, multicast or broadcast addresses";

#[test]
fn the_crd_file_equals_the_crd_of_the_type() {
    let generated = Vpc::crd();
    crd::validate(&generated).unwrap();
    let written = decode(include_str!("../../crd/vpcs.yaml"));
    let written: CustomResourceDefinition = serde_json::from_value(written).unwrap();
    let expected = serde_json::to_string_pretty(&generated).unwrap();
    assert_eq!(written, generated, "crd/vpcs.yaml should contain {expected}");
}

#[tokio::test]
async fn what_cannot_be_split_is_refused() {
    let world = World::without_operator(TestEnv::builder()).await;
    let small = "too small for the number of subnets, each of at least 4 addresses";
    let block = "must be an IPv4 block such as 10.0.0.0/16";
    for (cidr, count, expected) in [
        ("10.0.0.0", 1, block),
        ("10.0.0.1/16", 1, block),
        ("fd00::/64", 1, block),
        ("127.0.0.0/8", 1, RESERVED),
        ("0.0.0.0/0", 1, RESERVED),
        ("169.254.0.0/17", 1, RESERVED),
        ("192.0.0.0/2", 1, RESERVED),
        ("10.0.0.0/16", 257, "spec.subnetnum in body should be less than or equal to 256"),
        ("10.0.0.0/28", 5, small),
        ("10.0.0.0/23", 129, small),
        ("10.0.0.0/31", 0, small),
    ] {
        let (code, status) = world.env.post(VPCS, &shop(cidr, count)).await;
        let message = status["message"].as_str().unwrap();
        assert!(code == 422 && message.contains(expected), "{cidr} {count}: {message}");
        assert!(message.contains("spec.cidrblock") || count == 257, "{message}");
        assert_eq!(message.contains(small), expected == small, "{message}");
    }
    for (cidr, count) in [("10.0.0.0/28", 4), ("10.0.0.0/23", 128), ("10.0.0.0/22", 256)] {
        let mut vpc = shop(cidr, count);
        vpc["metadata"]["name"] = json!(format!("vpc-{count}"));
        world.env.create(VPCS, &vpc).await;
    }
    let mut vpc = shop("10.0.0.0/16", 1);
    vpc["metadata"]["name"] = json!("n".repeat(60));
    let (_, status) = world.env.post(VPCS, &vpc).await;
    let message = status["message"].as_str().unwrap();
    let expected = "metadata.name: at most 59 characters, since the subnets are named after it";
    assert!(message.contains(expected), "{message}");
    world.stop().await;
}

#[tokio::test]
async fn the_roles_of_the_cluster_cover_vpcs_and_networks() {
    let mut roles = [manifests(), network_operator::manifests("https://localhost:9443")].concat();
    roles.retain(|document| decode(document)["kind"] == "ClusterRole");
    let kinds = [("network.example.com", "vpcs"), ("samplecrd.k8s.io", "networks")];
    let kinds = kinds.map(|(group, plural)| Kind { group, plural, has_scale: false });
    user_roles::check(&roles, &kinds).await;
}
