//! The custom resources: a desired number of pods, under two names.
//!
//! [`CustomPod`] is the kind of the tutorial, and [`ImoocPod`] the same of an earlier chapter. What
//! they share is [`PodSet`], which is all that the controller knows of them.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use runtime::prelude::*;

/// The desired number of pods.
#[resource(
    group = "zhhnzw.mock.com",
    version = "v1",
    kind = "CustomPod",
    namespaced,
    status = "PodSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    object_rule(
        "self.metadata.name.size() <= 60",
        message = "metadata.name: at most 60 characters, since it is a label of the pods"
    )
)]
pub struct CustomPodSpec {
    /// The number of pods.
    #[schemars(range(max = 100))]
    pub replicas: usize,
}

/// The desired number of pods.
#[resource(
    group = "k8s.imooc.com",
    version = "v1alpha1",
    kind = "ImoocPod",
    namespaced,
    status = "PodSetStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    object_rule(
        "self.metadata.name.size() <= 60",
        message = "metadata.name: at most 60 characters, since it is a label of the pods"
    )
)]
pub struct ImoocPodSpec {
    /// The number of pods.
    #[schemars(range(max = 100))]
    pub replicas: usize,
}

/// The pending and running pods.
#[schema]
#[derive(PartialEq, Default)]
#[serde(default)]
pub struct PodSetStatus {
    /// The number of pods.
    pub replicas: usize,
    /// The names of the pods.
    pub pod_names: Vec<String>,
}

/// A kind whose objects have a number of pods, and a [`PodSetStatus`].
pub trait PodSet:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
    /// The desired number of pods.
    fn replicas(&self) -> usize;
}

impl PodSet for CustomPod {
    fn replicas(&self) -> usize {
        self.spec.replicas
    }
}

impl PodSet for ImoocPod {
    fn replicas(&self) -> usize {
        self.spec.replicas
    }
}
