//! The client of a manager: the informers show its writes at once, and writes are refused when this
//! process is not the leader.
//!
//! After a write, through any `Api`, a read from the manager's caches shows the written state or a
//! newer one, without waiting for the watch. So a cache that is behind never makes a controller
//! create an object twice. Most responses contain the written object; for those that do not, such
//! as that to a scale or to the deletion of a collection, the caches [read it back](cache_updater)
//! with one request.
//!
//! The following changes are shown by the watch only: changes of *other* objects by the server (the
//! garbage collection of dependents, the pod of a `Binding` that was sent to the collection), the
//! deletion of an object that was not cached, and a write whose read-back failed, which is logged as
//! a warning.
//!
//! A creation whose response was lost may have succeeded or not. So that this can be decided, names
//! are [generated here](lost_creations) and not by the server (`generateName`). Before another
//! object of that resource is created in that namespace, the lost creation is looked up. If it had
//! succeeded, the new creation is refused with [`NotCreated`], since it was decided without
//! knowledge of the first. If not, the new creation uses the same name, so that only one of the two
//! can succeed.

mod fenced_client;
pub(crate) mod resource_path;
mod response_content;
mod cache_updater;
mod lost_creations;
mod contention;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube_client::Client;
use kube_client::client::Body;
use tower_service::Service;

use crate::ApiService;
use crate::api_service::{ResponseBody, response_body};
use crate::fence::Fence;
use crate::metrics::requests::Requests;
use cache_updater::CacheUpdater;
use contention::Contention;
use informer::InformerFactory;
use informer::shared_items::AcceptItems;
use keel::{Clock, Entropy};
use lost_creations::LostCreations;
use resource_path::{ResourcePath, dry_run};
use response_content::ResponseContent;

pub(crate) use fenced_client::fenced;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A creation was not sent, because the result of an earlier one was unknown. The name is that of the
/// earlier creation.
///
/// A reconcile may return it like any error, and is retried. To detect it:
///
/// ```
/// use runtime::{kube_client, managed_client::NotCreated};
///
/// fn was_created_before(error: &kube_client::Error) -> bool {
///     let kube_client::Error::Service(cause) = error else { return false };
///     matches!(cause.downcast_ref(), Some(NotCreated::EarlierSucceeded(_)))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCreated {
    /// An earlier creation, whose response was lost, had succeeded: read the cache and decide
    /// again.
    #[error("an earlier creation of {0} had succeeded; read the cache again")]
    EarlierSucceeded(String),
    /// The server does not report whether it had succeeded: try again.
    #[error("cannot find out whether an earlier creation of {0} had succeeded")]
    EarlierUnknown(String),
}

/// A client whose writes are fenced, counted, and observed by the informers of `factory`, which read
/// objects back by `reader`.
pub(crate) fn managed(
    service: ApiService,
    reader: Client,
    requests: &Requests,
    fence: &Fence,
    factory: &Arc<InformerFactory>,
    clock: &Clock,
    entropy: &Entropy,
) -> Client {
    let namespace = service.default_namespace().to_owned();
    let state = ManagedState {
        service,
        requests: requests.clone(),
        fence: fence.clone(),
        cache_updater: CacheUpdater { client: reader, factory: Arc::clone(factory) },
        entropy: entropy.clone(),
        creations: LostCreations::new(clock),
        contention: Contention::new(clock),
    };
    Client::new(ManagedClient(Arc::new(state)), namespace)
}

/// The number of names that are generated for an object if they exist already, as in kube-apiserver.
const MAX_NAMES: u32 = 8;

/// Whether a response says that an object of this name exists; and the response.
async fn already_exists(
    response: Response<ResponseBody>,
) -> Result<(bool, Response<ResponseBody>), BoxError> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    let status = serde_json::from_slice::<kube_client::core::Status>(&body);
    let is_taken = status.is_ok_and(|it| it.reason == "AlreadyExists");
    Ok((is_taken, Response::from_parts(head, response_body(body))))
}

#[derive(Clone)]
struct ManagedClient(Arc<ManagedState>);

struct ManagedState {
    service: ApiService,
    requests: Requests,
    fence: Fence,
    cache_updater: CacheUpdater,
    entropy: Entropy,
    creations: LostCreations,
    contention: Contention,
}

impl Service<Request<Body>> for ManagedClient {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let method = request.method().clone();
            if matches!(method, Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(state.send(request).await?);
            }
            state.fence.check()?;
            // A server in this process hands over the object that it has stored.
            request.extensions_mut().insert(AcceptItems { managed_fields: true });
            let target = ResourcePath::parse(request.uri().path()).filter(|it| !it.is_streamed());
            let Some(target) = target else { return state.send_write(request).await };
            if method == Method::DELETE {
                return state.delete(&target, request).await;
            }
            if dry_run(request.uri().query(), b"") == Some(true) {
                return state.send_write(request).await;
            }
            match &target.name {
                Some(name) => state.write(&target, name, request).await,
                None if method == Method::POST => state.create(&target, request).await,
                None => state.send_write(request).await,
            }
        })
    }
}

impl ManagedState {
    async fn send(&self, request: Request<Body>) -> kube_client::Result<Response<ResponseBody>> {
        self.requests.send(&self.service, request).await
    }

    /// Sends a write; it is abandoned when another process may become the leader.
    async fn send_write(&self, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        self.fence.await_write(self.send(request)).await
    }

    async fn create(
        &self,
        target: &ResourcePath,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        self.resolve_lost_creations(target).await?;
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut attempts = 1;
        let (pending, response) = loop {
            self.fence.check()?;
            let (named, pending) = self.creations.begin(target, body.clone(), &self.entropy);
            let request = Request::from_parts(head.clone(), Body::from(named));
            let mut response = self.send_write(request).await?;
            if response.status() != StatusCode::CONFLICT {
                break (pending, response);
            }
            if pending.is_retry {
                drop(pending);
                self.resolve_lost_creations(target).await?;
                return Ok(response);
            }
            let is_taken;
            (is_taken, response) = already_exists(response).await?;
            if !is_taken || !pending.is_generated() || attempts == MAX_NAMES {
                break (pending, response);
            }
            pending.confirm();
            attempts += 1;
        };
        let status = response.status();
        // If this future is dropped before the caches are updated, the creation counts as lost.
        let (response, content) = ResponseContent::read(target, response).await?;
        if let Some(content) = content {
            let name = content.item().map_or(pending.name(), |item| Some(item.name()));
            if let Some(name) = name {
                self.cache_updater.written(target, name, &content).await;
            }
        }
        // After a server error the object may have been stored nevertheless.
        if !status.is_server_error() {
            pending.confirm();
        }
        Ok(response)
    }

    /// Looks up the creations whose responses were lost, and fails if one of them had succeeded.
    async fn resolve_lost_creations(&self, target: &ResourcePath) -> Result<(), BoxError> {
        let mut succeeded = None;
        for name in self.creations.lost(target) {
            let path = format!("{}/{name}", target.path);
            let response = self.send(Request::get(path).body(Body::empty())?).await?;
            match response.status() {
                status if status.is_success() => {
                    if let (_, Some(content)) = ResponseContent::read(target, response).await? {
                        self.cache_updater.written(target, &name, &content).await;
                    }
                    self.creations.was_found(target, &name);
                    succeeded = Some(NotCreated::EarlierSucceeded(name));
                }
                // Without permission to read, the same name prevents a second creation.
                StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
                    self.creations.was_not_found(target, &name);
                }
                _ => return Err(NotCreated::EarlierUnknown(name).into()),
            }
        }
        succeeded.map_or(Ok(()), |succeeded| Err(succeeded.into()))
    }

    async fn write(
        &self,
        target: &ResourcePath,
        name: &str,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let before = self.cache_updater.cached(target, name);
        let response = self.send_write(request).await?;
        let (response, content) = ResponseContent::read(target, response).await?;
        if let (Some(before), Some(ResponseContent::Object(item) | ResponseContent::Stored(item))) =
            (before, &content)
        {
            self.contention.wrote(target, &before, item);
        }
        if let Some(content) = content {
            self.cache_updater.written(target, name, &content).await;
        }
        Ok(response)
    }

    async fn delete(
        &self,
        target: &ResourcePath,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_dry_run = dry_run(head.uri.query(), &body);
        let response = self.send_write(Request::from_parts(head, Body::from(body))).await?;
        if is_dry_run == Some(true) {
            return Ok(response);
        }
        let (response, content) = ResponseContent::read(target, response).await?;
        match (content, &target.name) {
            (None, _) => {}
            (Some(_), None) => self.cache_updater.collection_deleted(target).await,
            (Some(content), Some(name))
                if is_dry_run == Some(false) && target.subresource.is_none() =>
            {
                self.cache_updater.deleted(target, name, &content).await;
            }
            (Some(_), Some(name)) => {
                self.cache_updater.written(target, name, &ResponseContent::Other).await;
            }
        }
        Ok(response)
    }
}
