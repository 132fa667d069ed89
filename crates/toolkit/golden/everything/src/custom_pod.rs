//! The kind `CustomPod`: the expected state of its objects, and the observed one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use runtime::prelude::*;

pub mod controller;
pub mod defaulting;
pub mod validation;
pub mod v2;
pub mod conversion;
pub mod v3;
// sampan:modules of CustomPod

/// The expected state.
#[resource(
    group = "zhhnzw.mock.com",
    version = "v1",
    kind = "CustomPod",
    plural = "custompods",
    namespaced,
    status = "CustomPodStatus",
    printcolumn(name = "Expected", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Observed", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct CustomPodSpec {
    /// An example: replace it with the fields of your kind.
    #[schemars(range(max = 100))]
    pub replicas: u32,
}

/// The observed state, as the controller reports it.
#[schema]
#[derive(PartialEq, Default)]
#[serde(default)]
pub struct CustomPodStatus {
    /// An example: replace it with what your controller observes.
    pub replicas: u32,
    /// `Ready` says whether the observed state is the expected one.
    #[schema(list_map_keys("type"))]
    pub conditions: Vec<Condition>,
}
