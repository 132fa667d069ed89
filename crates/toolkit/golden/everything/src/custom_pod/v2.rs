//! `CustomPod` in version v2. The stored version is the one without `storage = false`.

use runtime::prelude::*;

use super::CustomPodStatus;

/// The expected state.
#[resource(
    group = "zhhnzw.mock.com",
    version = "v2",
    kind = "CustomPod",
    plural = "custompods",
    storage = false,
    namespaced,
    status = "CustomPodStatus",
    printcolumn(name = "Expected", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Observed", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct CustomPodSpec {
    /// An example: replace it with the fields of this version.
    #[schemars(range(max = 100))]
    pub replicas: u32,
}
