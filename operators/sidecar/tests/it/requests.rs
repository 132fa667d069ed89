//! [`Requests`]: requests to a plane as one user.

use http::Method;
use serde_json::{Value, json};

use runtime::Client;
use runtime::kube_client::Error;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";

/// See the [module documentation](self).
#[derive(Clone)]
pub(crate) struct Requests(pub(crate) Client);

/// The code and the message of a refusal.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Requests {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, Refusal> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        match self.0.request(request.body(body).unwrap()).await {
            Ok(value) => Ok(value),
            Err(Error::Api(status)) => {
                Err(Refusal { code: status.code, message: status.message.clone() })
            }
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.send(Method::GET, path, &Value::Null).await
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        self.send(Method::POST, path, object).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Value {
        self.send(Method::PATCH, path, patch).await.unwrap()
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, &Value::Null).await.unwrap();
    }

    /// Repeats a GET until the object is as expected, for changes that a controller makes.
    pub(crate) async fn until(&self, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let polling = async {
            loop {
                match self.get(path).await {
                    Ok(found) if is_expected(&found) => return found,
                    _ => tokio::task::yield_now().await,
                }
            }
        };
        let found = tokio::time::timeout(crate::world::LIMIT, polling).await;
        found.unwrap_or_else(|_| panic!("{path} is not as expected"))
    }

    /// Creates an object of a manifest, or replaces it.
    pub(crate) async fn apply(&self, object: &Value) {
        let (collection, name) = (collection(object), object["metadata"]["name"].as_str().unwrap());
        match self.create(&collection, object).await {
            Ok(_) => {}
            Err(Refusal { code: 409, .. }) => {
                self.merge(&format!("{collection}/{name}"), object).await;
            }
            Err(refusal) => panic!("{name}: {refusal:?}"),
        }
    }
}

/// The path of the collection of an object.
fn collection(object: &Value) -> String {
    let group_version = object["apiVersion"].as_str().unwrap();
    let prefix = if group_version == "v1" { "/api" } else { "/apis" };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{prefix}/{group_version}/namespaces/{namespace}/{plural}"),
        None if ["pods", "configmaps", "deployments"].contains(&&*plural) => {
            format!("{prefix}/{group_version}/namespaces/default/{plural}")
        }
        None => format!("{prefix}/{group_version}/{plural}"),
    }
}

/// A pod that requests a sidecar.
pub(crate) fn annotated(name: &str) -> Value {
    let mut pod = plain(name);
    pod["metadata"]["annotations"] = json!({"initializer.kubernetes.io/envoy": "true"});
    pod
}

/// A pod that does not request a sidecar.
pub(crate) fn plain(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}})
}

/// The names of the elements of a list in the spec of a pod, without the volume of the token.
pub(crate) fn names(pod: &Value, field: &str) -> Vec<String> {
    let elements = pod["spec"][field].as_array().into_iter().flatten();
    let names = elements.map(|element| element["name"].as_str().unwrap().to_owned());
    names.filter(|name| !name.starts_with("kube-api-access-")).collect()
}
