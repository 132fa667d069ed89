//! [`ContentRemoval`]: deletes the objects of a namespace, and finds out what remains.
//!
//! Upstream: `deletion/namespaced_resources_deleter.go` deleteAllContent

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::conditions::{
    CONTENT_FAILURE, CONTENT_REMAINING, DISCOVERY_FAILURE, FINALIZERS_REMAINING, NewCondition,
};
use crate::api_requests::{self, has_code, message};
use crate::resource_discovery::{ApiResource, DiscoveredResources};
use crate::time;
use keel::Clock;
use runtime::{Client, kube_client};

/// The estimated time until a finalizer is removed.
const FINALIZER_ESTIMATE_SECONDS: u64 = 15;

/// The number of resources whose objects are deleted at a time.
const MAX_CONCURRENT_RESOURCES: usize = 24;

/// The number of objects of a resource that are deleted at a time if it does not support the deletion
/// of a collection.
const MAX_CONCURRENT_DELETIONS: usize = 8;

/// The size of the list in a message, which is part of a status.
const MAX_PARTS: usize = 8 << 10;

/// See the [module documentation](self).
pub(super) struct ContentRemoval<'a> {
    pub client: &'a Client,
    pub clock: &'a Clock,
    pub namespace: &'a str,
}

/// The result of one attempt.
#[derive(Default)]
pub(super) struct RemovalOutcome {
    /// The time until the remaining objects are gone; 0 if all are gone.
    pub estimate_seconds: u64,
    /// All failures, if there were any.
    pub error: Option<String>,
    /// What is wrong.
    pub conditions: Vec<NewCondition>,
    /// The objects that remain.
    pub remaining: Vec<RemainingObjects>,
}

/// The objects of a resource that remain.
pub(super) struct RemainingObjects {
    pub resource: Arc<ApiResource>,
    pub names: Vec<String>,
    /// The state in which they remain.
    pub resource_version: String,
    finalizers: BTreeMap<String, usize>,
}

/// The result for one resource.
#[derive(Default)]
struct ResourceOutcome {
    estimate_seconds: u64,
    remaining: Option<RemainingObjects>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMetadata,
    items: Option<Vec<T>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: ObjectMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectMetadata {
    name: String,
    finalizers: Vec<String>,
}

impl ContentRemoval<'_> {
    /// Deletes all objects; those of other resources than pods after the pods are gone.
    pub(super) async fn remove_all(
        &self,
        discovered: &kube_client::Result<Arc<DiscoveredResources>>,
        namespace: &Value,
    ) -> RemovalOutcome {
        let mut outcome = Totals::default();
        let resources = match discovered {
            Ok(discovered) => {
                outcome.add_discovery_failures(discovered);
                let resources = discovered.preferred();
                let deletable = resources.filter(|it| it.is_namespaced && it.supports(&["delete"]));
                deletable.cloned().collect()
            }
            Err(error) => {
                outcome.fail_discovery(message(error));
                Vec::new()
            }
        };
        let (pods, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(|it| is_pods(it));
        for pods in pods {
            let deleted_at =
                serde_json::from_value(namespace["metadata"]["deletionTimestamp"].clone());
            let removed = self.remove_pods(pods, deleted_at.ok()).await;
            let are_gone = removed.remaining.is_none();
            outcome.add(removed, |error| {
                format!("failed to delete pods for namespace: {}, err: {error}", self.namespace)
            });
            if !are_gone {
                return outcome.finish(false);
            }
        }
        let removals = others.into_iter().map(|resource| self.remove(resource, 0));
        let mut removals = stream::iter(removals).buffer_unordered(MAX_CONCURRENT_RESOURCES);
        while let Some(removed) = removals.next().await {
            outcome.add(removed, |error| error);
        }
        drop(removals);
        outcome.finish(true)
    }

    async fn remove_pods(
        &self,
        pods: Arc<ApiResource>,
        deleted_at: Option<Time>,
    ) -> ResourceOutcome {
        match self.estimate_for_pods(&pods).await {
            Ok(estimate) => {
                // The estimate is not trusted for longer than it says.
                let since = deleted_at.map(|at| time::since(self.clock, &at)).unwrap_or_default();
                let is_over = since >= Duration::from_secs(estimate);
                self.remove(pods, if is_over { 0 } else { estimate }).await
            }
            Err(error) => {
                ResourceOutcome { error: Some(message(&error)), ..ResourceOutcome::default() }
            }
        }
    }

    /// The longest grace period of the pods that run.
    async fn estimate_for_pods(&self, pods: &ApiResource) -> kube_client::Result<u64> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Pod {
            spec: Spec,
            status: Status,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            termination_grace_period_seconds: i64,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Status {
            phase: String,
        }
        let listed: List<Pod> = match self.list(pods).await {
            Ok(Some(listed)) => listed,
            Ok(None) => return Ok(0),
            Err(error) => return Err(error),
        };
        let running = listed.items.iter().flatten();
        let running =
            running.filter(|pod| !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed"));
        let longest = running.map(|pod| pod.spec.termination_grace_period_seconds).max();
        Ok(longest.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0))
    }

    /// Deletes the objects of a resource, of which `estimate` is the time that it takes.
    async fn remove(&self, resource: Arc<ApiResource>, estimate: u64) -> ResourceOutcome {
        let mut outcome =
            ResourceOutcome { estimate_seconds: estimate, ..ResourceOutcome::default() };
        let listed = match self.delete_objects(&resource).await {
            Ok(()) => self.list::<Object>(&resource).await,
            Err(error) => Err(error),
        };
        let listed = match listed {
            Ok(Some(listed)) => listed,
            Ok(None) => return outcome,
            Err(error) => {
                outcome.error = Some(message(&error));
                return outcome;
            }
        };
        let mut finalizers = BTreeMap::new();
        let mut names = Vec::new();
        for object in listed.items.into_iter().flatten() {
            names.push(object.metadata.name);
            for finalizer in object.metadata.finalizers {
                *finalizers.entry(finalizer).or_default() += 1;
            }
        }
        if names.is_empty() {
            return ResourceOutcome::default();
        }
        if estimate == 0 && !finalizers.is_empty() {
            outcome.estimate_seconds = FINALIZER_ESTIMATE_SECONDS;
        } else if estimate == 0 {
            let ApiResource { group, version, plural, .. } = &*resource;
            outcome.error = Some(format!(
                "unexpected items still remain in namespace: {} for gvr: {group}/{version}, Resource={plural}",
                self.namespace
            ));
        }
        let resource_version = listed.metadata.resource_version;
        outcome.remaining =
            Some(RemainingObjects { resource, names, resource_version, finalizers });
        outcome
    }

    async fn delete_objects(&self, resource: &ApiResource) -> kube_client::Result<()> {
        // Upstream: the garbage collector must not orphan dependents.
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
        });
        let path = resource.collection_path(self.namespace);
        if resource.supports(&["deletecollection"])
            && none_if_unsupported(self.send_delete(&path, &options).await)?.is_some()
        {
            return Ok(());
        }
        let Some(listed) = self.list::<Object>(resource).await? else { return Ok(()) };
        let names = listed.items.into_iter().flatten().map(|object| object.metadata.name);
        let deletions = names.map(|name| {
            let path = resource.object_path(self.namespace, &name);
            let options = &options;
            async move { none_if_unsupported(self.send_delete(&path, options).await).map(drop) }
        });
        let mut deletions = stream::iter(deletions).buffer_unordered(MAX_CONCURRENT_DELETIONS);
        while let Some(deleted) = deletions.next().await {
            deleted?;
        }
        Ok(())
    }

    async fn send_delete(&self, path: &str, options: &Value) -> kube_client::Result<IgnoredAny> {
        api_requests::delete_with(self.client, path, options).await
    }

    /// The objects of a resource; `None` if they cannot be listed.
    async fn list<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
    ) -> kube_client::Result<Option<List<T>>> {
        if !resource.supports(&["list"]) {
            return Ok(None);
        }
        let path = resource.collection_path(self.namespace);
        let listed = api_requests::get::<List<T>>(self.client, &path).await;
        Ok(none_if_unsupported(listed)?.flatten())
    }
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.version == "v1" && resource.plural == "pods"
}

/// `None` for a resource or a verb that the server does not serve.
fn none_if_unsupported<T>(result: kube_client::Result<T>) -> kube_client::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if has_code(&error, 404) || has_code(&error, 405) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The results of all resources.
#[derive(Default)]
struct Totals {
    outcome: RemovalOutcome,
    errors: Vec<String>,
    content_errors: Vec<String>,
}

impl Totals {
    fn add_discovery_failures(&mut self, discovered: &DiscoveredResources) {
        if let Some(failures) = discovered.failure_message() {
            let count = discovered.failures.len();
            let message = format!("Discovery failed for some groups, {count} failing: {failures}");
            self.outcome
                .conditions
                .push(NewCondition { condition_type: DISCOVERY_FAILURE, message });
            self.errors.push(failures);
        }
    }

    fn fail_discovery(&mut self, message: String) {
        self.errors.push(message.clone());
        self.outcome.conditions.push(NewCondition { condition_type: DISCOVERY_FAILURE, message });
    }

    fn add(&mut self, removed: ResourceOutcome, describe: impl FnOnce(String) -> String) {
        let outcome = &mut self.outcome;
        outcome.estimate_seconds = outcome.estimate_seconds.max(removed.estimate_seconds);
        outcome.remaining.extend(removed.remaining);
        if let Some(error) = removed.error {
            self.content_errors.push(error.clone());
            self.errors.push(describe(error));
        }
    }

    /// Upstream: the totals are not computed while pods remain.
    fn finish(mut self, with_totals: bool) -> RemovalOutcome {
        let remaining = &self.outcome.remaining;
        let mut conditions = Vec::new();
        if with_totals && !remaining.is_empty() {
            let mut parts: Vec<String> = remaining
                .iter()
                .map(|RemainingObjects { resource, names, .. }| {
                    let (plural, group) = (&resource.plural, &resource.group);
                    format!("{plural}.{group} has {} resource instances", names.len())
                })
                .collect();
            parts.sort();
            let message = format!("Some resources are remaining: {}", join(&parts));
            conditions.push(NewCondition { condition_type: CONTENT_REMAINING, message });
        }
        let mut finalizers = BTreeMap::<&str, usize>::new();
        for (finalizer, count) in remaining.iter().flat_map(|it| &it.finalizers) {
            *finalizers.entry(finalizer).or_default() += count;
        }
        if with_totals && !finalizers.is_empty() {
            let mut parts: Vec<String> = finalizers
                .iter()
                .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
                .collect();
            parts.sort();
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", join(&parts));
            conditions.push(NewCondition { condition_type: FINALIZERS_REMAINING, message });
        }
        self.content_errors.sort();
        if !self.content_errors.is_empty() {
            let (count, errors) = (self.content_errors.len(), join(&self.content_errors));
            let message =
                format!("Failed to delete all resource types, {count} remaining: {errors}");
            conditions.push(NewCondition { condition_type: CONTENT_FAILURE, message });
        }
        self.outcome.conditions.extend(conditions);
        self.outcome.error = (!self.errors.is_empty()).then(|| join(&self.errors));
        self.outcome
    }
}

/// The parts of a message; if they are long, the first ones and the number of the others.
fn join(parts: &[String]) -> String {
    let mut text = String::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            if text.len() + part.len() > MAX_PARTS {
                return text + &format!(", and {} more", parts.len() - number);
            }
            text += ", ";
        }
        text += part;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_thousands_of_finalizers_has_the_first_ones() {
        let finalizers: Vec<_> = (0..40_000).map(|it| format!("example.com/{it:06}")).collect();
        let text = join(&finalizers);
        assert!(text.starts_with("example.com/000000, example.com/000001, "), "{text}");
        assert!(text.ends_with(", and 39591 more"), "{}", &text[text.len() - 100..]);
        assert_eq!(join(&finalizers[..2]), "example.com/000000, example.com/000001");
    }
}
