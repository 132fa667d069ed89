//! [`ServicePods`]: finds the pods of a service, and the services of a pod, by indices.
//!
//! Services are indexed by one label of their selector, and pods by each of their labels, so that a
//! change of a pod is compared with the services that have a label in common with it, and not with all
//! services of the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use runtime::informer::{Indexer, Item, NoSuchIndex, ObjectDecodeError, ObjectEvent};
use runtime::{Lister, Mapper, Predicate, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::controller_context::ControllerContext;
use crate::endpoint_pod::EndpointPod;
use crate::service_view::ServiceView;

/// The index of pods by each of their labels.
const LABEL_INDEX: &str = "label";

/// The index of services by the first label of their selector.
const SELECTOR_INDEX: &str = "selector";

/// See the [module documentation](self).
pub(crate) struct ServicePods {
    pods: Lister<EndpointPod>,
    services: Lister<ServiceView>,
}

/// The selector of a service.
#[derive(Deserialize)]
struct Selecting {
    #[serde(default)]
    spec: SelectorOnly,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SelectorOnly {
    selector: BTreeMap<String, String>,
}

fn selector_of(service: &Item) -> BTreeMap<String, String> {
    service.decode::<Selecting>().map(|service| service.spec.selector).unwrap_or_default()
}

fn index_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

impl ServicePods {
    /// Adds the indices to the shared caches.
    pub(crate) fn new(cx: &ControllerContext) -> Self {
        let pods = cx.manager.informer::<Pod>();
        pods.indexer().add_index(LABEL_INDEX, |item| {
            let labels = item.labels();
            labels.iter().map(|(key, value)| index_value(item.namespace(), key, value)).collect()
        });
        let services = cx.manager.informer::<Service>();
        services.indexer().add_index(SELECTOR_INDEX, |item| {
            let selector = selector_of(item);
            let first = selector.first_key_value();
            first
                .map(|(key, value)| index_value(item.namespace(), key, value))
                .into_iter()
                .collect()
        });
        Self { pods: pods.lister(), services: services.lister() }
    }

    /// The service of a request.
    pub(crate) fn service(
        &self,
        key: &Request,
    ) -> Result<Option<Arc<ServiceView>>, ObjectDecodeError> {
        self.services.shared_key(key)
    }

    /// The pods that a service selects, in the order of their names. Pods that cannot be decoded are
    /// omitted.
    pub(crate) fn pods_of(
        &self,
        service: &ServiceView,
    ) -> Result<Vec<Arc<EndpointPod>>, NoSuchIndex> {
        let selector = &service.spec.selector;
        let mut fewest: Option<Vec<Item>> = None;
        for (key, value) in selector {
            let value = index_value(&service.metadata.namespace, key, value);
            let found = self.pods.indexer().by_index(LABEL_INDEX, &value)?;
            if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
                fewest = Some(found);
            }
        }
        let found = fewest.into_iter().flatten();
        let decoded = found.filter_map(|item| decode(&self.pods, &item));
        Ok(decoded.filter(|pod| is_selected(&pod.metadata.labels, selector)).collect())
    }

    /// Maps a pod to the services that select it.
    pub(crate) fn services_of_pod(&self) -> Mapper {
        let services = Arc::clone(self.services.indexer());
        Mapper::custom(move |pod| services_of_labels(&services, pod.namespace(), &pod.labels()))
    }
}

/// The present state of a cached object. One that cannot be decoded is logged and omitted.
pub(crate) fn decode<T: DeserializeOwned>(lister: &Lister<T>, item: &Item) -> Option<Arc<T>> {
    lister.shared_key(item.key()).unwrap_or_else(|decode_error| {
        tracing::warn!(object = %item.key(), error = %decode_error.error, "{decode_error}");
        None
    })
}

/// Accepts the changes of pods that may change endpoints.
pub(crate) fn endpoints_may_change() -> Predicate {
    Predicate::custom(|event| {
        let ObjectEvent::Updated { old, new } = event else { return true };
        if old.resource_version() == new.resource_version() {
            return false;
        }
        match (old.decode::<EndpointPod>(), new.decode::<EndpointPod>()) {
            (Ok(old), Ok(new)) => new.differs_from(&old),
            _ => true,
        }
    })
}

fn services_of_labels(
    services: &Indexer,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Vec<Request> {
    let mut requests = Vec::new();
    for (key, value) in labels {
        let value = index_value(namespace, key, value);
        let candidates = services.by_index(SELECTOR_INDEX, &value).unwrap_or_default();
        let selecting = candidates.iter().filter(|it| is_selected(labels, &selector_of(it)));
        requests.extend(selecting.map(|service| service.key().clone()));
    }
    requests
}

fn is_selected(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
