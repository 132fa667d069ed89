//! What makes a manager's client different from any other: its writes are seen by the informers at
//! once, and refused when this process is not the leader.
//!
//! Whoever writes with it, through whichever `Api`, reads from the manager's caches what was written
//! or something newer, without waiting for the watch. So a cache that lags behind never makes a
//! controller create something twice. Most answers tell what was written; where one does not, as
//! that to a scale or to the deletion of a collection, the caches [look](cache_updater), which costs a
//! request.
//!
//! Not seen before the watch shows it are what the server does of its own accord to *other* objects
//! (what is collected with its owner, the pod of a `Binding` that was sent to the collection), the
//! deletion of an object of which the cache had not heard, and whatever was written if that look
//! fails, which is a warning in the log.
//!
//! A creation whose answer was lost may have happened or not. So that this can be found out, names
//! are [made here](lost_creations) and not by the server (`generateName`); and before anything else of
//! that resource is created in that namespace, it *is* found out. If it had happened, the new
//! creation is refused with [`NotCreated`]: it was decided on without knowing of the other one. If
//! not, the next creation takes its name, so that of the two only one can happen.

mod resource_path;
mod answer;
mod cache_updater;
mod lost_creations;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use informer::InformerFactory;
use keel::{Clock, Entropy};
use kube_client::{Client, client::Body};
use tower_service::Service;

use crate::{fence::Fence, metrics::requests::Requests};
use answer::Answer;
use cache_updater::CacheUpdater;
use lost_creations::LostCreations;
use resource_path::{ResourcePath, dry_run};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why nothing was created. The name is that of the earlier creation.
///
/// A reconcile need not act on it: as any error, it is tried again. Who wants to know:
///
/// ```
/// use runtime::{kube_client, managed_client::NotCreated};
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

/// A client whose writes are fenced, counted, and observed by the informers of `factory`.
pub(crate) fn managed(
    client: Client,
    requests: &Requests,
    fence: &Fence,
    factory: &Arc<InformerFactory>,
    clock: &Clock,
    entropy: &Entropy,
) -> Client {
    let namespace = client.default_namespace().to_owned();
    let counted = requests.counting(client.clone());
    let state = ManagedState {
        client,
        requests: requests.clone(),
        fence: fence.clone(),
        cache_updater: CacheUpdater { client: counted, factory: Arc::clone(factory) },
        entropy: entropy.clone(),
        creations: LostCreations::new(clock),
    };
    Client::new(ManagedClient(Arc::new(state)), namespace)
}

#[derive(Clone)]
struct ManagedClient(Arc<ManagedState>);

struct ManagedState {
    client: Client,
    requests: Requests,
    fence: Fence,
    cache_updater: CacheUpdater,
    entropy: Entropy,
    creations: LostCreations,
}

impl Service<Request<Body>> for ManagedClient {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let method = request.method().clone();
            if matches!(method, Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(state.send(request).await?);
            }
            state.fence.check()?;
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
    async fn send(&self, request: Request<Body>) -> kube_client::Result<Response<Body>> {
        self.requests.send(&self.client, request).await
    }

    /// The same, unless another may lead before there is an answer.
    async fn send_write(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.fence.bound(self.send(request)).await
    }

    async fn create(
        &self,
        target: &ResourcePath,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        self.settle(target).await?;
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        self.fence.check()?;
        let (body, pending) = self.creations.begin(target, body, &self.entropy);
        let response = self.send_write(Request::from_parts(head, Body::from(body))).await?;
        let status = response.status();
        if pending.is_retry && status == StatusCode::CONFLICT {
            drop(pending);
            self.settle(target).await?;
            return Ok(response);
        }
        // Whoever is cut off before the caches know has lost the creation, and will find it.
        let (response, answer) = Answer::read(target, response).await?;
        if let Some(answer) = answer {
            let name = answer.item().map_or(pending.name(), |item| Some(item.name()));
            if let Some(name) = name {
                self.cache_updater.written(target, name, &answer).await;
            }
        }
        // A server that failed may have failed after the write.
        if !status.is_server_error() {
            pending.settle();
        }
        Ok(response)
    }

    /// Finds out whether creations happened of which the answer was lost.
    async fn settle(&self, target: &ResourcePath) -> Result<(), BoxError> {
        let mut overtaken = None;
        for name in self.creations.lost(target) {
            let path = format!("{}/{name}", target.path);
            let response = self.send(Request::get(path).body(Body::empty())?).await?;
            match response.status() {
                status if status.is_success() => {
                    if let (_, Some(answer)) = Answer::read(target, response).await? {
                        self.cache_updater.written(target, &name, &answer).await;
                    }
                    self.creations.was_found(target, &name);
                    overtaken = Some(NotCreated::Overtaken(name));
                }
                // Who may not look does not decide by looking; names keep it from happening twice.
                StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => {
                    self.creations.was_not_found(target, &name);
                }
                _ => return Err(NotCreated::Unknown(name).into()),
            }
        }
        overtaken.map_or(Ok(()), |overtaken| Err(overtaken.into()))
    }

    async fn write(
        &self,
        target: &ResourcePath,
        name: &str,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let response = self.send_write(request).await?;
        let (response, answer) = Answer::read(target, response).await?;
        if let Some(answer) = answer {
            self.cache_updater.written(target, name, &answer).await;
        }
        Ok(response)
    }

    async fn delete(
        &self,
        target: &ResourcePath,
        request: Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let is_dry_run = dry_run(head.uri.query(), &body);
        let response = self.send_write(Request::from_parts(head, Body::from(body))).await?;
        if is_dry_run == Some(true) {
            return Ok(response);
        }
        let (response, answer) = Answer::read(target, response).await?;
        match (answer, &target.name) {
            (None, _) => {}
            (Some(_), None) => self.cache_updater.collection_deleted(target).await,
            (Some(answer), Some(name))
                if is_dry_run == Some(false) && target.subresource.is_none() =>
            {
                self.cache_updater.deleted(target, name, &answer).await;
            }
            (Some(_), Some(name)) => self.cache_updater.written(target, name, &Answer::Other).await,
        }
        Ok(response)
    }
}
