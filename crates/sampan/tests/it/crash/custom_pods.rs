//! A plane that is killed, with the operator of `operators/custompod`, while the number of pods changes.

use std::cell::RefCell;

use custompod_operator::{Options, add_to, manifests};

use super::interrupted_plane::{InterruptedPlane, PODS, assert_same_end};
use super::pod_history::{PodHistory, is_active};
use crate::operator::Operator;
use crate::plane::Plane;
use keel::Entropy;
use machinery::codec::yaml;
use machinery::{Value, json};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CUSTOM_PODS: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods";
const IMOOC_PODS: &str = "/apis/k8s.imooc.com/v1alpha1/namespaces/default/imoocpods";
const SAMPLE: &str = "/apis/zhhnzw.mock.com/v1/namespaces/default/custompods/custompod-sample";
const EXAMPLE: &str =
    include_str!("../../../../../operators/custompod/example/custompod-sample.yaml");

/// The desired number of pods of the first rounds; then it is random, up to the largest of them.
const REPLICAS: [usize; 5] = [1, 3, 1, 0, 100];

#[test]
fn there_are_never_more_pods_than_requested() {
    let history = RefCell::new(PodHistory::default());
    assert_same_end(&[], |plane, round| {
        let (before, wanted) = (replicas(round.saturating_sub(1)), replicas(round));
        if round == 0 {
            history.take();
            install(plane);
        }
        let patch = json!({"spec": {"replicas": wanted}});
        plane.send("PATCH", &format!("{SAMPLE}/scale"), Some(&patch));
        plane.run_until(SAMPLE, 12, |_, sample| sample["status"]["replicas"] == wanted);
        history.borrow_mut().replay(plane.take_events(), |history, event| {
            let live = history.remaining().filter(|pod| is_active(pod)).count();
            let max = before.max(wanted);
            assert!(live <= max, "{live} pods in round {round}, but {max} wanted: {event:?}");
        });
        let is_live = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        json!(plane.list(PODS).values().filter(is_live).count())
    });
}

/// The desired number of pods of a round.
fn replicas(round: u64) -> usize {
    let random = || usize::try_from(Entropy::seeded(round).below(101)).unwrap();
    usize::try_from(round).ok().and_then(|it| REPLICAS.get(it).copied()).unwrap_or_else(random)
}

fn install(plane: &mut InterruptedPlane) {
    let decode = |document: &str| yaml::decode(document.as_bytes()).unwrap().value;
    for manifest in manifests().iter().map(|document| decode(document)) {
        plane.create(&collection(&manifest), &manifest);
    }
    plane.wait_until(CUSTOM_PODS, |code, _| code == 200);
    plane.wait_until(IMOOC_PODS, |code, _| code == 200);
    plane.create(CUSTOM_PODS, &decode(EXAMPLE));
    plane.start_operator(|plane: &Plane| {
        Operator::start(&plane.kubeconfig, "custompod-operator", |manager| {
            add_to(manager, &Options::default());
        })
    });
}

/// The path of the collection of a manifest.
fn collection(manifest: &Value) -> String {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    match manifest["kind"].as_str().unwrap() {
        "CustomResourceDefinition" => CRDS.to_owned(),
        "Namespace" => "/api/v1/namespaces".to_owned(),
        "ServiceAccount" => "/api/v1/namespaces/operators/serviceaccounts".to_owned(),
        "Role" => format!("{rbac}/namespaces/operators/roles"),
        "RoleBinding" => format!("{rbac}/namespaces/operators/rolebindings"),
        kind => format!("{rbac}/{}s", kind.to_lowercase()),
    }
}
