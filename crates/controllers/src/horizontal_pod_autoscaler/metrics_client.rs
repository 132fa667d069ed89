//! [`MetricsClient`]: reads the resource, custom and external metrics APIs for one decision of an
//! autoscaler, whose metrics may need the same list many times: each is read once.
// Upstream: podautoscaler/metrics/client.go

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::metric_samples::{Sample, Samples, milli_value};
use crate::api_requests;
use crate::resource_discovery::escaped;
use crate::scale_client::ScaleClient;
use crate::time::to_timestamp;
use machinery::go_duration;
use machinery::selector::LabelSelector;
use runtime::Client;
use runtime::kube_client;

/// The window of custom metrics that name none.
const DEFAULT_WINDOW: Duration = Duration::from_mins(1);

/// The characters of a value that are escaped in a query.
const ESCAPED_IN_VALUE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// See the [module documentation](self). Errors are messages for the user.
pub(super) struct MetricsClient {
    client: Client,
    resource_metrics: Responses<List<PodMetrics>>,
    custom_metrics: Responses<List<MetricValue>>,
    external_metrics: Responses<List<ExternalMetricValue>>,
    custom_version: OnceCell<Result<String, String>>,
}

/// The responses by path. Not locked while a request is sent.
type Responses<T> = Mutex<HashMap<String, Result<Arc<T>, String>>>;

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: PodName,
    timestamp: Option<Time>,
    #[serde(default)]
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize)]
struct PodName {
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: std::collections::BTreeMap<String, String>,
}

/// A custom metric, in v1beta1 or v1beta2.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    described_object: PodName,
    timestamp: Option<Time>,
    #[serde(alias = "window")]
    window_seconds: Option<u64>,
    value: String,
}

#[derive(Deserialize)]
struct ExternalMetricValue {
    value: String,
}

impl MetricsClient {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            resource_metrics: Mutex::default(),
            custom_metrics: Mutex::default(),
            external_metrics: Mutex::default(),
            custom_version: OnceCell::new(),
        }
    }

    /// The usage of a resource by the selected pods, or by one of their containers.
    pub(super) async fn resource(
        &self,
        resource: &str,
        namespace: &str,
        selector: &LabelSelector,
        container: &str,
    ) -> Result<Samples, String> {
        let selector = encoded(&selector.to_string());
        let path = format!(
            "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?labelSelector={selector}"
        );
        let list = self.get(&self.resource_metrics, &path, "pods.metrics.k8s.io").await;
        let list = list.map_err(|error| {
            format!("unable to fetch metrics from resource metrics API: {error}")
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        let sample = |pod: &PodMetrics| {
            let value = if container.is_empty() {
                let mut values = pod.containers.iter().map(|it| it.usage.get(resource));
                let total = values
                    .try_fold(0_i64, |sum, usage| Some(sum.saturating_add(milli_value(usage?))));
                total.filter(|_| !pod.containers.is_empty())?
            } else {
                let found = pod.containers.iter().find(|it| it.name == container)?;
                milli_value(found.usage.get(resource)?)
            };
            let timestamp = pod.timestamp.as_ref().map(to_timestamp).unwrap_or_default();
            let name = pod.metadata.name.clone();
            Some((name, Sample { timestamp, window: duration(&pod.window), value }))
        };
        Ok(list.items.iter().filter_map(sample).collect())
    }

    /// A custom metric of the selected pods.
    pub(super) async fn pods(
        &self,
        metric: &str,
        namespace: &str,
        selector: &LabelSelector,
        metric_selector: &LabelSelector,
    ) -> Result<Samples, String> {
        let values = self
            .custom(
                &format!("namespaces/{namespace}/pods/*/{}", escaped(metric)),
                Some(selector),
                metric_selector,
            )
            .await?;
        if values.items.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let sample = |it: &MetricValue| {
            let sample = Sample {
                timestamp: it.timestamp.as_ref().map(to_timestamp).unwrap_or_default(),
                window: it.window_seconds.map_or(DEFAULT_WINDOW, Duration::from_secs),
                value: milli_value(&it.value),
            };
            (it.described_object.name.clone(), sample)
        };
        Ok(values.items.iter().map(sample).collect())
    }

    /// A custom metric of an object.
    pub(super) async fn object(
        &self,
        metric: &str,
        namespace: &str,
        object: &CrossVersionObjectReference,
        metric_selector: &LabelSelector,
        scales: &ScaleClient,
    ) -> Result<i64, String> {
        let failed = |error| format!("unable to fetch metrics from custom metrics API: {error}");
        let api_version = object.api_version.as_deref().unwrap_or("v1");
        let (metric, name) = (escaped(metric), escaped(&object.name));
        let path = if object.kind == "Namespace" && api_version == "v1" {
            // Another namespace cannot be named.
            format!("namespaces/{namespace}/metrics/{metric}")
        } else {
            let mapping = scales.mapping(api_version, &object.kind).await;
            let mapping = mapping.map_err(|error| failed(error.to_string()))?;
            let resource = match mapping.kind.group.as_str() {
                "" => mapping.resource,
                group => format!("{}.{group}", mapping.resource),
            };
            format!("namespaces/{namespace}/{resource}/{name}/{metric}")
        };
        let values = self.custom(&path, None, metric_selector).await?;
        match values.items.as_slice() {
            [value] => Ok(milli_value(&value.value)),
            values => Err(failed(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                values.len()
            ))),
        }
    }

    /// All values of an external metric.
    pub(super) async fn external(
        &self,
        metric: &str,
        namespace: &str,
        selector: &LabelSelector,
    ) -> Result<Vec<i64>, String> {
        let selector = encoded(&selector.to_string());
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{}?labelSelector={selector}",
            escaped(metric)
        );
        let resource = format!("{metric}.external.metrics.k8s.io");
        let list = self.get(&self.external_metrics, &path, &resource).await;
        let list = list.map_err(|error| {
            format!("unable to fetch metrics from external metrics API: {error}")
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(list.items.iter().map(|it| milli_value(&it.value)).collect())
    }

    async fn custom(
        &self,
        path: &str,
        selector: Option<&LabelSelector>,
        metric_selector: &LabelSelector,
    ) -> Result<Arc<List<MetricValue>>, String> {
        let read = async {
            let version = self.custom_version.get_or_init(|| self.read_custom_version()).await;
            let version = version.as_ref().map_err(String::clone)?;
            let metric_selector = encoded(&metric_selector.to_string());
            let selector = selector.map_or(String::new(), |selector| {
                format!("labelSelector={}&", encoded(&selector.to_string()))
            });
            let path = format!(
                "/apis/custom.metrics.k8s.io/{version}/{path}?{selector}metricLabelSelector={metric_selector}"
            );
            self.get(&self.custom_metrics, &path, "metrics.custom.metrics.k8s.io").await
        };
        let list = read.await;
        list.map_err(|error| format!("unable to fetch metrics from custom metrics API: {error}"))
    }

    /// The version of the custom metrics API that the server prefers.
    async fn read_custom_version(&self) -> Result<String, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Group {
            preferred_version: Version,
        }
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        let group: Option<Group> = api_requests::get(&self.client, "/apis/custom.metrics.k8s.io")
            .await
            .map_err(|error| api_requests::message(&error))?;
        group
            .map(|group| group.preferred_version.version)
            .ok_or_else(|| "no custom metrics API (custom.metrics.k8s.io) registered".to_owned())
    }

    /// The response to a request, which is sent if it was not sent before.
    async fn get<T: DeserializeOwned>(
        &self,
        responses: &Responses<T>,
        path: &str,
        resource: &str,
    ) -> Result<Arc<T>, String> {
        let lock = || responses.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(path).cloned();
        if let Some(known) = known {
            return known;
        }
        let response = self.read(path, resource).await.map(Arc::new);
        lock().insert(path.to_owned(), response.clone());
        response
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, resource: &str) -> Result<T, String> {
        let request =
            http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        self.client.request(request).await.map_err(|error| match &error {
            // The group is not served: the response is no Status.
            kube_client::Error::Api(status)
                if status.code == 404 && status.reason != "NotFound" =>
            {
                format!("the server could not find the requested resource (get {resource})")
            }
            kube_client::Error::Api(status) if status.code == 503 => {
                format!("the server is currently unable to handle the request (get {resource})")
            }
            error => api_requests::message(error),
        })
    }
}

/// A duration as Go writes it; zero if it cannot be parsed.
fn duration(text: &str) -> Duration {
    go_duration::parse_duration(text).unwrap_or_default()
}

/// A text as the value of a query parameter.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED_IN_VALUE).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_encoded_for_queries() {
        let selector = encoded("app=web,tier in (a-1,b)");
        assert_eq!(selector, "app%3Dweb%2Ctier%20in%20%28a-1%2Cb%29");
        assert_eq!(duration("1m30s"), Duration::from_secs(90));
    }
}
