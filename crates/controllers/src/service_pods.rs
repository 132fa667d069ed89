//! [`ServicePods`]: finds the pods of a service, and the services of a pod, by indices.
//!
//! Pods are indexed by each of their labels, and services by [their selector](SelectorIndex), so that
//! neither all pods nor all services of a namespace are compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller_context::ControllerContext;
use crate::endpoint_pod::EndpointPod;
use crate::selector_index::{SelectorIndex, index_value};
use crate::service_view::ServiceView;
use machinery::selector::LabelSelector;
use runtime::informer::{Item, NoSuchIndex, ObjectDecodeError, ObjectEvent};
use runtime::{Lister, Mapper, Predicate, Request};

/// The index of pods by each of their labels.
const LABEL_INDEX: &str = "label";

/// See the [module documentation](self).
pub(crate) struct ServicePods {
    pods: Lister<EndpointPod>,
    services: Lister<ServiceView>,
    selectors: SelectorIndex,
}

/// Reads the labels that a service requires. Without any, it selects nothing.
fn read_selector(labels: &Value) -> Result<LabelSelector, String> {
    if labels.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(LabelSelector::nothing());
    }
    LabelSelector::from_value(&json!({"matchLabels": labels}))
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
        let selectors = SelectorIndex::new(services.indexer(), read_selector);
        Self { pods: pods.lister(), services: services.lister(), selectors }
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
        let services = self.selectors.clone();
        Mapper::custom(move |pod| services.selecting(pod.namespace(), &pod.labels()))
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

fn is_selected(labels: &BTreeMap<String, String>, selector: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
