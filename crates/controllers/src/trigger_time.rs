//! [`TriggerTimes`]: the annotation `endpoints.kubernetes.io/last-change-trigger-time` of endpoints,
//! from which the time between a change of a pod and that of the endpoints is measured.
//!
//! Upstream: staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use runtime::ObjectKey;

use crate::endpoint_pod::EndpointPod;
use crate::service_view::ServiceView;

/// The name of the annotation.
pub(crate) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The times of the last reconcile of each service.
#[derive(Default)]
pub(crate) struct TriggerTimes(Mutex<HashMap<ObjectKey, ServiceTimes>>);

struct ServiceTimes {
    created: Option<Time>,
    /// The time of the last change of each pod's readiness, by the hash of its name. Sorted by hash.
    pods: Vec<(u64, Time)>,
}

impl TriggerTimes {
    /// The time of the earliest change since the last call for this service; `None` if there was no
    /// change.
    pub(crate) fn observe(
        &self,
        key: &ObjectKey,
        service: &ServiceView,
        pods: &[Arc<EndpointPod>],
    ) -> Option<Time> {
        let changed = pods.iter().filter_map(|pod| {
            let time = pod.ready_changed()?.clone();
            Some((hash(&pod.metadata.name), time))
        });
        let mut times: Vec<(u64, Time)> = changed.collect();
        times.sort_unstable();
        let created = service.metadata.creation_timestamp.clone();
        let mut services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = ServiceTimes { created: created.clone(), pods: times };
        let Some(before) = services.insert(key.clone(), now) else { return created };
        let now = &services[key];
        let is_new = |(pod, time): &&(u64, Time)| {
            let known = before.pods.binary_search_by_key(pod, |(pod, _)| *pod);
            known.map_or(true, |index| before.pods[index].1 < *time)
        };
        let pods = now.pods.iter().filter(is_new).map(|(_, time)| time.clone());
        let created =
            created.filter(|created| before.created.as_ref().is_none_or(|it| it < created));
        pods.chain(created).min()
    }

    /// Forgets a service.
    pub(crate) fn remove(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// Sets or removes the annotation.
pub(crate) fn annotate(annotations: &mut BTreeMap<String, String>, time: Option<&Time>) {
    match time {
        Some(time) => annotations.insert(ANNOTATION.to_owned(), time.0.to_string()),
        None => annotations.remove(ANNOTATION),
    };
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
