//! [`ServicePods`]: finds the pods of a service, and the services of a pod, by indices.
//!
//! Pods are indexed by each of their labels, and services by [their selector](SelectorIndex), so that
//! neither all pods nor all services of a namespace are compared. The few pods with more than
//! [`MAX_INDEXED_LABELS`] labels are compared with all services of their namespace instead.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller_context::ControllerContext;
use crate::endpoint_pod::EndpointPod;
use crate::selector_index::{SelectorIndex, any_label, index_value};
use crate::service_view::ServiceView;
use machinery::selector::LabelSelector;
use runtime::informer::{Indexer, Item, NoSuchIndex, ObjectDecodeError, ObjectEvent};
use runtime::{Lister, Mapper, Predicate, Request};

/// The index of pods by each of their labels.
const LABEL_INDEX: &str = "label";

/// The labels of a pod with more are not indexed, so that a change of it stays cheap.
const MAX_INDEXED_LABELS: usize = 200;

/// So few pods are compared without a search for a label that fewer have.
const FEW_PODS: usize = 16;

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
        pods.indexer().add_index(LABEL_INDEX, label_values);
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
        let found = candidates(self.pods.indexer(), &service.metadata.namespace, selector)?;
        let decoded = found.iter().filter_map(|item| decode(&self.pods, item));
        Ok(decoded.filter(|pod| is_selected(&pod.metadata.labels, selector)).collect())
    }

    /// Maps a pod to the services that select it.
    pub(crate) fn services_of_pod(&self) -> Mapper {
        let services = self.selectors.clone();
        Mapper::custom(move |pod| services.selecting(pod.namespace(), &pod.labels()))
    }
}

/// The values of a pod in the index.
fn label_values(pod: &Item) -> Vec<String> {
    let (namespace, labels) = (pod.namespace(), pod.labels());
    if labels.len() > MAX_INDEXED_LABELS {
        return vec![any_label(namespace)];
    }
    labels.iter().map(|(key, value)| index_value(namespace, key, value)).collect()
}

/// The pods of a namespace that may have all of these labels, in the order of their names.
fn candidates(
    pods: &Indexer,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<Item>, NoSuchIndex> {
    let mut fewest: Option<Vec<Item>> = None;
    for (key, value) in labels {
        let found = pods.by_index(LABEL_INDEX, &index_value(namespace, key, value))?;
        if fewest.as_ref().is_none_or(|fewest| found.len() < fewest.len()) {
            fewest = Some(found);
        }
        if fewest.as_ref().is_some_and(|fewest| fewest.len() <= FEW_PODS) {
            break;
        }
    }
    let mut found = fewest.unwrap_or_default();
    let not_indexed = pods.by_index(LABEL_INDEX, &any_label(namespace))?;
    if !labels.is_empty() && !not_indexed.is_empty() {
        found.extend(not_indexed);
        found.sort_by(|one, other| one.name().cmp(other.name()));
    }
    Ok(found)
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
    selector.len() <= labels.len()
        && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_a_pod_with_very_many_are_compared_and_not_indexed() {
        let labels = |count: usize| -> BTreeMap<String, String> {
            (0..count).map(|number| (format!("k{number}"), String::new())).collect()
        };
        let pods = Indexer::new();
        pods.add_index(LABEL_INDEX, label_values);
        for (name, count) in [("few", 3), ("b-many", 10_000), ("most", MAX_INDEXED_LABELS)] {
            let pod =
                json!({"metadata": {"namespace": "n", "name": name, "labels": labels(count)}});
            pods.insert(Item::parse(pod.to_string().into_bytes()).unwrap());
        }
        let values = pods.index_values(LABEL_INDEX).unwrap();
        assert_eq!(values.len(), MAX_INDEXED_LABELS + 1, "{values:?}");
        let selected = |selector: &BTreeMap<String, String>| {
            let found = candidates(&pods, "n", selector).unwrap();
            let found = found.iter().filter(|pod| is_selected(&pod.labels(), selector));
            found.map(|pod| pod.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(selected(&labels(2)), ["b-many", "few", "most"]);
        assert_eq!(selected(&labels(4)), ["b-many", "most"]);
        assert_eq!(selected(&labels(9_999)), ["b-many"]);
        assert_eq!(selected(&labels(10_001)), Vec::<String>::new());
        assert_eq!(selected(&labels(0)), Vec::<String>::new());
    }
}
