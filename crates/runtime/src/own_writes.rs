//! What makes a manager's client different from any other: its writes are seen by the informers at
//! once, and refused when this process is not the leader.
//!
//! Whoever writes with it, through whichever `Api`, reads from the caches what was written or
//! something newer, without waiting for the watch. So a cache that lags behind never makes a
//! controller create something twice.
//!
//! A creation whose answer was lost may have happened or not. So that this can be found out, names
//! are made here and not by the server (`generateName`); and before anything else of that resource
//! is created in that namespace, it *is* found out. If it had happened, the new creation is refused
//! with [`NotCreated`]: it was decided on without knowing of the other one.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use informer::{InformerFactory, Item, ObjectKey};
use keel::Entropy;
use kube_client::{Client, client::Body};
use machinery::{GroupVersion, Object, Value};
use tower_service::Service;

use crate::fence::Fence;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers to writes are objects, which are never so long.
const LONGEST_ANSWER: usize = 64 << 20;
/// Names have at most 63 characters, of which the suffix has five.
const LONGEST_PREFIX: usize = 58;
const SUFFIX: usize = 5;

/// Why nothing was created. The name is that of the earlier creation.
///
/// A reconcile need not act on it: as any error, it is tried again. Who wants to know:
///
/// ```
/// use runtime::{kube_client, own_writes::NotCreated};
///
/// fn is_there_already(error: &kube_client::Error) -> bool {
///     let kube_client::Error::Service(cause) = error else { return false };
///     matches!(cause.downcast_ref(), Some(NotCreated::Overtaken(_)))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCreated {
    /// An earlier creation, of which the answer was lost, had succeeded: read again, and decide
    /// again.
    #[error("an earlier creation of {0} had succeeded after all; look again")]
    Overtaken(String),
    /// The server does not say whether it had succeeded: try again.
    #[error("cannot find out whether an earlier creation of {0} had succeeded")]
    Unknown(String),
}

/// A client whose writes are fenced, and observed by the informers of `factory`.
pub(crate) fn managed(
    client: &Client,
    fence: &Fence,
    factory: &Arc<InformerFactory>,
    entropy: &Entropy,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let shared = Shared {
        client: client.clone(),
        fence: fence.clone(),
        factory: Arc::clone(factory),
        entropy: entropy.clone(),
        unsettled: Mutex::default(),
    };
    Client::new(Managed(Arc::new(shared)), namespace)
}

#[derive(Clone)]
struct Managed(Arc<Shared>);

struct Shared {
    client: Client,
    fence: Fence,
    factory: Arc<InformerFactory>,
    entropy: Entropy,
    /// Creations that may have happened: their collection and name. As many as there are workers,
    /// times the creations of one reconcile, at most.
    unsettled: Mutex<Vec<(Target, String)>>,
}

impl Service<Request<Body>> for Managed {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(shared.client.send(request).await?);
            }
            shared.fence.check()?;
            let is_dry_run = request.uri().query().is_some_and(|query| query.contains("dryRun="));
            match Target::parse(request.uri().path()).filter(|_| !is_dry_run) {
                Some(target) if target.name.is_none() && request.method() == Method::POST => {
                    shared.create(target, request).await
                }
                Some(target) if target.name.is_some() => shared.write(&target, request).await,
                _ => shared.fence.bound(shared.client.send(request)).await,
            }
        })
    }
}

impl Shared {
    async fn create(
        &self,
        target: Target,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        self.settle(&target).await?;
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (body, name) = self.with_name(body);
        self.fence.check()?;
        let sent = Unsettled::new(self, &target, name);
        let request = Request::from_parts(head, Body::from(body));
        let response = self.fence.bound(self.client.send(request)).await?;
        // A server that failed may have failed after the write.
        if !response.status().is_server_error() {
            sent.settle();
        }
        self.observe(&target, response).await
    }

    async fn write(
        &self,
        target: &Target,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let is_deletion = request.method() == Method::DELETE;
        let response = self.fence.bound(self.client.send(request)).await?;
        if is_deletion {
            return self.observe_deletion(target, response).await;
        }
        self.observe(target, response).await
    }

    /// Gives an object that leaves its name to the server a name.
    fn with_name(&self, body: Bytes) -> (Bytes, Option<String>) {
        let Ok(Value::Object(map)) = serde_json::from_slice(&body) else { return (body, None) };
        let mut object = Object::new(map);
        if !object.name().is_empty() {
            return (body, Some(object.name().to_owned()));
        }
        let prefix: String =
            object.meta_text("generateName").chars().take(LONGEST_PREFIX).collect();
        if prefix.is_empty() {
            return (body, None);
        }
        let name = prefix + &self.entropy.suffix(SUFFIX);
        object.set_meta("name", name.as_str());
        (object.to_bytes().into(), Some(name))
    }

    /// Finds out whether creations happened of which the answer was lost.
    async fn settle(&self, target: &Target) -> Result<(), BoxError> {
        let same: Vec<_> = {
            let unsettled = self.lock();
            let same = unsettled.iter().filter(|(other, _)| other == target);
            same.map(|(_, name)| name.clone()).collect()
        };
        let mut overtaken = None;
        for name in same {
            let path = format!("{}/{name}", target.path);
            let request = Request::get(path).body(Body::empty())?;
            let response = self.client.send(request).await?;
            if response.status().is_success() {
                self.observe(target, response).await?;
                overtaken = Some(NotCreated::Overtaken(name.clone()));
            } else if response.status() != StatusCode::NOT_FOUND {
                return Err(NotCreated::Unknown(name).into());
            }
            self.lock().retain(|(other, known)| other != target || *known != name);
        }
        overtaken.map_or(Ok(()), |overtaken| Err(overtaken.into()))
    }

    async fn observe(
        &self,
        target: &Target,
        response: Response<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (response, object) = read(response).await?;
        if let Some(item) = object.filter(|_| target.answers_with_object()) {
            self.factory.observe_write(&target.group_version, &target.resource, &item);
        }
        Ok(response)
    }

    async fn observe_deletion(
        &self,
        target: &Target,
        response: Response<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (response, object) = read(response).await?;
        if !target.answers_with_object() || !response.status().is_success() {
            return Ok(response);
        }
        let (group_version, resource) = (&target.group_version, &target.resource);
        match object {
            Some(item) if is_gone(&item.object()) => {
                self.factory.observe_deletion(group_version, resource, item.key(), item.uid());
            }
            Some(item) => self.factory.observe_write(group_version, resource, &item),
            None => {
                let (response, uid) = uid_of_status(response).await;
                if let (Some(uid), Some(name)) = (uid, &target.name) {
                    let key = ObjectKey::new(&target.namespace, name);
                    self.factory.observe_deletion(group_version, resource, &key, &uid);
                }
                return Ok(response);
            }
        }
        Ok(response)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Target, String)>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A creation that is under way; whoever drops it without knowing its outcome leaves it behind.
struct Unsettled<'a> {
    shared: &'a Shared,
    creation: Option<(Target, String)>,
}

impl<'a> Unsettled<'a> {
    fn new(shared: &'a Shared, target: &Target, name: Option<String>) -> Self {
        Self { shared, creation: name.map(|name| (target.clone(), name)) }
    }

    fn settle(mut self) {
        self.creation = None;
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(creation) = self.creation.take() {
            self.shared.lock().push(creation);
        }
    }
}

/// Which object or collection a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    /// As it was asked for.
    path: String,
    group_version: GroupVersion,
    resource: String,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let group_version = GroupVersion::new(group, parts.next()?);
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        // `namespaces/a` and `namespaces/a/status` are about the namespace itself.
        let is_inside = rest.len() > 2 && !matches!(rest[2], "status" | "finalize");
        if rest.first() == Some(&"namespaces") && is_inside {
            namespace = rest[1];
            rest.drain(..2);
        }
        let mut rest = rest.into_iter().map(str::to_owned);
        Some(Self {
            path: path.to_owned(),
            group_version,
            resource: rest.next()?,
            namespace: namespace.to_owned(),
            name: rest.next(),
            subresource: rest.next(),
        })
    }

    /// Other subresources answer with kinds of their own.
    fn answers_with_object(&self) -> bool {
        self.subresource.as_deref().is_none_or(|name| name == "status")
    }
}

/// Reads an answer to its end, and the object in it if it is a success and a whole object.
async fn read(response: Response<Body>) -> Result<(Response<Body>, Option<Item>), BoxError> {
    let (head, body) = response.into_parts();
    let bytes = Limited::new(body, LONGEST_ANSWER).collect().await?.to_bytes();
    let item = head.status.is_success().then(|| Item::parse(bytes.as_ref()).ok()).flatten();
    let item =
        item.filter(|item| !matches!(item.object().kind(), "Status" | "PartialObjectMetadata"));
    Ok((Response::from_parts(head, Body::from(bytes)), item))
}

/// The answer to a deletion that left nothing behind may be a Status that names the uid.
async fn uid_of_status(response: Response<Body>) -> (Response<Body>, Option<String>) {
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let uid = status["details"]["uid"].as_str().map(str::to_owned);
    (Response::from_parts(head, Body::from(bytes)), uid)
}

/// Whether an object that a deletion answered with is its last state: some kinds answer with it
/// although nothing is left.
fn is_gone(object: &Object) -> bool {
    let grace = object.get(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let waits = object.deletion_timestamp().is_some() && grace != Some(0);
    object.finalizers().next().is_none() && !waits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str) -> String {
        Target::parse(path).map_or("none".to_owned(), |target| {
            let name = target.name.unwrap_or_default();
            let (group_version, subresource) = (target.group_version, target.subresource);
            format!(
                "{group_version} {} {:?} {name} {subresource:?}",
                target.resource, target.namespace
            )
        })
    }

    #[test]
    fn a_path_names_its_target() {
        assert_eq!(check("/api/v1/namespaces/n/pods"), r#"v1 pods "n"  None"#);
        assert_eq!(check("/api/v1/namespaces/n"), r#"v1 namespaces "" n None"#);
        assert_eq!(check("/api/v1/namespaces/n/status"), r#"v1 namespaces "" n Some("status")"#);
        assert_eq!(
            check("/apis/g.io/v1/namespaces/n/things/a/scale"),
            r#"g.io/v1 things "n" a Some("scale")"#
        );
        assert_eq!(check("/apis/g.io/v1/things/a"), r#"g.io/v1 things "" a None"#);
        assert_eq!(check("/healthz"), "none");
    }

    #[test]
    fn an_object_is_gone_when_nothing_holds_it() {
        let gone = |metadata: &str| {
            let value = serde_json::from_str(&format!(r#"{{"metadata":{metadata}}}"#)).unwrap();
            is_gone(&Object::from_value(value).unwrap())
        };
        assert!(gone(r#"{"name":"a"}"#));
        assert!(gone(r#"{"deletionTimestamp":"t","deletionGracePeriodSeconds":0}"#));
        assert!(!gone(r#"{"deletionTimestamp":"t","deletionGracePeriodSeconds":30}"#));
        assert!(!gone(
            r#"{"deletionTimestamp":"t","deletionGracePeriodSeconds":0,"finalizers":["f"]}"#
        ));
    }
}
