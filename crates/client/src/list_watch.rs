//! [`ClientListWatch`]: the lists and watches of one resource with a `kube::Client`.
//!
//! ```no_run
//! use client::ClientListWatch;
//! use informer::{ListRequest, ListWatch, ListWatchError, Scope};
//! use machinery::GroupVersion;
//!
//! async fn names(client: kube_client::Client) -> Result<Vec<String>, ListWatchError> {
//!     let pods = Scope::all(GroupVersion::new("", "v1"), "pods");
//!     let page = ClientListWatch::new(client, &pods).list(ListRequest::default()).await?;
//!     Ok(page.items.iter().map(|pod| pod.key().to_string()).collect())
//! }
//! ```
//!
//! Pages and events are split into objects, which are not decoded. A server in the same process hands
//! over [its own objects](informer::shared_items) instead. All failures become a [`ListWatchError`],
//! which the [reflector](informer::reflector) handles.

use std::fmt::Write;
use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube_client::Client;
use kube_client::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error_response::error_for_status;
use crate::lines::{MAX_LINE_BYTES, lines};
use informer::shared_items::{AcceptItems, ItemEvents, ItemList};
use informer::{
    Form, List, ListRequest, ListWatch, ListWatchError, Scope, Selection, WatchEvent, WatchRequest,
    WatchStream,
};
use machinery::GroupVersion;

/// The maximum size of a page of a list. A list without a limit has one page, which may be large.
const MAX_PAGE_BYTES: usize = 1 << 30;
/// The characters that are escaped in a segment of a path.
const ESCAPED_IN_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.');

/// See the [module documentation](self).
#[derive(Clone)]
pub struct ClientListWatch {
    client: Client,
    group_version: GroupVersion,
    resource: String,
    form: Form,
}

/// A function that creates the [`ListWatch`] of each scope of an
/// [`InformerFactory`](informer::InformerFactory), with this client.
pub fn source_of(client: Client) -> impl Fn(&Scope) -> Arc<dyn ListWatch> + Send + Sync {
    move |scope| Arc::new(ClientListWatch::new(client.clone(), scope))
}

impl ClientListWatch {
    /// The resource of `scope` in its form. The selection is part of each request.
    pub fn new(client: Client, scope: &Scope) -> Self {
        Self {
            client,
            group_version: scope.group_version.clone(),
            resource: scope.resource.clone(),
            form: scope.form,
        }
    }

    fn request(
        &self,
        selection: &Selection,
        accept: &str,
        query: &[(&str, String)],
        accept_items: AcceptItems,
    ) -> Result<Request<Body>, ListWatchError> {
        let mut query_text = form_urlencoded::Serializer::new(String::new());
        for (name, value) in query {
            query_text.append_pair(name, value);
        }
        if !selection.labels.is_empty() {
            query_text.append_pair("labelSelector", &selection.labels.to_string());
        }
        if !selection.fields.is_empty() {
            query_text.append_pair("fieldSelector", &selection.fields.to_string());
        }
        if selection.includes_uninitialized {
            query_text.append_pair("includeUninitialized", "true");
        }
        let path =
            collection_path(&self.group_version, &self.resource, selection.namespace.as_deref());
        let mut request = Request::get(format!("{path}?{}", query_text.finish()))
            .header(ACCEPT, accept)
            .body(Body::empty())
            .map_err(|error| ListWatchError::Connection(Box::new(error)))?;
        if self.form == Form::Whole {
            request.extensions_mut().insert(accept_items);
        }
        Ok(request)
    }

    fn send(
        &self,
        request: Result<Request<Body>, ListWatchError>,
    ) -> impl Future<Output = Result<Response<Body>, ListWatchError>> {
        let client = self.client.clone();
        async move {
            let sent = client.send(request?).await;
            let response = sent.map_err(|error| ListWatchError::Connection(Box::new(error)))?;
            error_for_status(response).await
        }
    }
}

impl ListWatch for ClientListWatch {
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<List, ListWatchError>> {
        let mut query = Vec::new();
        if let Some(limit) = request.limit {
            query.push(("limit", limit.to_string()));
        }
        // A continue token contains the resourceVersion; a server refuses both together.
        match (request.continue_token, request.resource_version) {
            (Some(token), _) => query.push(("continue", token)),
            (None, Some(version)) => query.push(("resourceVersion", version)),
            (None, None) => {}
        }
        let accept = match self.form {
            Form::Whole => "application/json",
            Form::Metadata => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        };
        let accept_items = AcceptItems { managed_fields: true };
        let sent = self.send(self.request(&request.selection, accept, &query, accept_items));
        Box::pin(async move {
            let response = sent.await?;
            if let Some(list) = response.extensions().get().and_then(ItemList::take) {
                return Ok(list);
            }
            let body = Limited::new(response.into_body(), MAX_PAGE_BYTES).collect().await;
            let bytes = body.map_err(ListWatchError::Connection)?.to_bytes();
            List::parse(bytes)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<WatchStream, ListWatchError>> {
        let mut query =
            vec![("watch", "true".to_owned()), ("allowWatchBookmarks", "true".to_owned())];
        if let Some(timeout) = request.timeout_seconds {
            query.push(("timeoutSeconds", timeout.to_string()));
        }
        if let Some(version) = request.resource_version {
            query.push(("resourceVersion", version));
        }
        if request.initial_events {
            query.push(("sendInitialEvents", "true".to_owned()));
            query.push(("resourceVersionMatch", "NotOlderThan".to_owned()));
        }
        let accept = match self.form {
            Form::Whole => "application/json",
            Form::Metadata => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        };
        let accept_items = AcceptItems { managed_fields: !request.strips_managed_fields };
        let sent = self.send(self.request(&request.selection, accept, &query, accept_items));
        Box::pin(async move {
            let response = sent.await?;
            let events = response.extensions().get().and_then(ItemEvents::take);
            let body = response.into_body();
            if let Some(events) = events {
                // The server counts the watch as open until its body is dropped.
                let events = events.inspect(move |_| {
                    let _body = &body;
                });
                return Ok(events.boxed());
            }
            let lines = lines(body, MAX_LINE_BYTES);
            Ok(lines.map(|line| WatchEvent::parse(line?)).boxed())
        })
    }
}

/// `/apis/apps/v1/namespaces/default/deployments`
fn collection_path(
    group_version: &GroupVersion,
    resource: &str,
    namespace: Option<&str>,
) -> String {
    let escaped = |text| utf8_percent_encode(text, ESCAPED_IN_SEGMENT);
    let prefix = if group_version.group.is_empty() { "/api" } else { "/apis" };
    let mut path = format!("{prefix}/{group_version}");
    if let Some(namespace) = namespace {
        // Writing to a string cannot fail.
        let _ = write!(path, "/namespaces/{}", escaped(namespace));
    }
    path + "/" + resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_group_and_namespace() {
        let core = GroupVersion::new("", "v1");
        let apps = GroupVersion::new("apps", "v1");
        assert_eq!(collection_path(&core, "pods", None), "/api/v1/pods");
        assert_eq!(
            collection_path(&apps, "deployments", Some("a/b")),
            "/apis/apps/v1/namespaces/a%2Fb/deployments"
        );
    }
}
