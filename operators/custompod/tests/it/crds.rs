//! The CRDs, and the kinds.

use custompod_operator::{CustomPod, ImoocPod, manifests};

use crate::installation::{LIMIT, decode};
use crate::user_roles::{self, Kind};
use crate::world::{CUSTOM_PODS, EXAMPLE, World};
use machinery::json;
use runtime::versions::CustomResourceDefinition;
use runtime::{crd, prelude::*};
use testenv::TestEnv;

const IMOOC_PODS: &str = "/apis/k8s.imooc.com/v1alpha1/namespaces/default/imoocpods";

#[test]
fn the_crd_files_equal_the_crds_of_the_types() {
    for (document, generated) in manifests().iter().zip([CustomPod::crd(), ImoocPod::crd()]) {
        crd::validate(&generated).unwrap();
        let written: CustomResourceDefinition = serde_json::from_value(decode(document)).unwrap();
        let expected = serde_json::to_string_pretty(&generated).unwrap();
        assert_eq!(written, generated, "the file in crd/ should contain {expected}");
    }
}

#[tokio::test]
async fn an_imooc_pod_has_pods_like_a_custom_pod() {
    let mut world = World::empty(TestEnv::builder()).await;
    world.start_operator();
    let sample = decode(include_str!("../../example/imoocpod-sample.yaml"));
    world.env.create(IMOOC_PODS, &sample).await;
    let path = format!("{IMOOC_PODS}/imoocpod-sample");
    let replicas = json!({"spec": {"replicas": 2}});
    world.env.merge(&format!("{path}/scale"), &replicas).await;
    world.manager().settled(LIMIT).await.unwrap();
    let status = &world.env.read(&path).await["status"];
    let names = ["imoocpod-sample-0", "imoocpod-sample-1"];
    assert_eq!(*status, json!({"replicas": 2, "podNames": names}));
    assert_eq!(world.pod_names().await, names);
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_reconciled_is_refused() {
    let world = World::empty(TestEnv::builder()).await;
    for (name, replicas, expected) in [
        ("a", 101, "spec.replicas in body should be less than or equal to 100"),
        ("a", -1, "spec.replicas in body should be greater than or equal to 0"),
        (
            &"n".repeat(61),
            1,
            "metadata.name: at most 60 characters, since it is a label of the pods",
        ),
    ] {
        let mut object = decode(EXAMPLE);
        object["metadata"]["name"] = json!(name);
        object["spec"]["replicas"] = json!(replicas);
        let (code, status) = world.env.post(CUSTOM_PODS, &object).await;
        let message = status["message"].as_str().unwrap();
        assert!(code == 422 && message.contains(expected), "{message}");
    }
    world.stop().await;
}

#[tokio::test]
async fn the_roles_of_the_cluster_cover_both_kinds() {
    let kinds = [("zhhnzw.mock.com", "custompods"), ("k8s.imooc.com", "imoocpods")];
    let kinds = kinds.map(|(group, plural)| Kind { group, plural, has_scale: true });
    user_roles::check(&manifests(), &kinds).await;
}
