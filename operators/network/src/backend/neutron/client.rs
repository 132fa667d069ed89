//! [`NeutronClient`]: the calls of Neutron's API.

use std::collections::BTreeMap;
use std::time::Duration;

use http::header::IF_MATCH;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::http_client::{HttpClient, Response, Service};
use super::model::{Id, Listed};
use super::options::{NeutronOptions, OptionsError};
use super::session::{Authentication, Session};
use crate::backend::BackendError;

/// The number of objects in a page of a list. A page is far smaller than the largest response.
const PAGE: usize = 500;

/// The largest number of objects in a list, the largest size of its pages together, and the longest
/// time for all of them: a server that sends pages without end, or slowly, gets no further.
const MAX_OBJECTS: usize = 50_000;
const MAX_LIST: usize = 64 << 20;
const LIST_TIMEOUT: Duration = Duration::from_mins(2);

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct NeutronClient {
    http: HttpClient,
    authentication: Authentication,
    /// Held while a session begins, so that there is one at a time.
    session: Mutex<Option<Session>>,
}

impl NeutronClient {
    pub(super) fn new(options: &NeutronOptions) -> Result<Self, OptionsError> {
        let authentication = Authentication::new(options)?;
        Ok(Self { http: HttpClient::new(options)?, authentication, session: Mutex::default() })
    }

    /// All objects that match the filters, page by page. A list that is not complete is an error: a
    /// network that it lacks would be created a second time.
    pub(super) async fn list<T: Listed>(
        &self,
        filters: &[(&str, &str)],
    ) -> Result<Vec<T>, BackendError> {
        let list = timeout(LIST_TIMEOUT, self.pages(filters)).await;
        let seconds = LIST_TIMEOUT.as_secs();
        list.unwrap_or_else(|_| {
            let why = format!("Neutron has not sent its list of {} in {seconds} s", T::PLURAL);
            Err(BackendError::Unavailable(why))
        })
    }

    async fn pages<T: Listed>(&self, filters: &[(&str, &str)]) -> Result<Vec<T>, BackendError> {
        let unavailable =
            |what: &str| BackendError::Unavailable(format!("Neutron {what} {}", T::PLURAL));
        let mut found = BTreeMap::<Id, T>::new();
        let (mut marker, mut size) = (None, 0);
        loop {
            let query = page_query::<T>(filters, marker.as_ref());
            let page = self.page::<T>(&format!("/v2.0/{}?{query}", T::PLURAL)).await?;
            size += page.size;
            if size > MAX_LIST {
                let most = MAX_LIST >> 20;
                return Err(unavailable(&format!("sends more than {most} MiB in its list of")));
            }
            marker = page.objects.last().map(|object| object.id().clone());
            let known = found.len();
            found.extend(page.objects.into_iter().map(|object| (object.id().clone(), object)));
            if page.is_last {
                return Ok(found.into_values().collect());
            }
            // A server that ignores the marker would send the same page for ever.
            if found.len() == known {
                return Err(unavailable("repeats a page of its list of"));
            }
            if found.len() > MAX_OBJECTS {
                return Err(unavailable(&format!("lists more than {MAX_OBJECTS}")));
            }
        }
    }

    /// The objects of the operator's project that match the filters. The server filters them, and so does
    /// this function.
    pub(super) async fn list_own<T: Listed>(
        &self,
        filters: &[(&str, &str)],
    ) -> Result<Vec<T>, BackendError> {
        let Some(project) = self.session(None).await?.project else {
            return self.list(filters).await;
        };
        let filters = [filters, &[("project_id", project.as_str())]].concat();
        let mut found = self.list::<T>(&filters).await?;
        found.retain(|object| object.project() == Some(project.as_str()));
        Ok(found)
    }

    async fn page<T: Listed>(&self, path: &str) -> Result<Page<T>, BackendError> {
        let response = self.send(Method::GET, path, None, None).await?;
        let size = response.size();
        let mut body: Map<String, Value> = response.decode()?;
        let objects = body.remove(T::PLURAL).unwrap_or_default();
        let objects = Vec::<T>::deserialize(objects).map_err(|error| {
            BackendError::Unavailable(format!("the list of {} is not valid: {error}", T::PLURAL))
        })?;
        let links = body.get(&format!("{}_links", T::PLURAL)).and_then(Value::as_array);
        // The largest page of the server may be smaller than the one that was asked for.
        let has_next = links.is_some_and(|all| all.iter().any(|link| link["rel"] == "next"));
        Ok(Page { is_last: !has_next && objects.len() < PAGE, objects, size })
    }

    pub(super) async fn create(&self, path: &str, body: &Value) -> Result<(), BackendError> {
        self.send(Method::POST, path, None, Some(body)).await?.check().map(drop)
    }

    /// Updates an object, unless its revision is another one.
    pub(super) async fn update(
        &self,
        path: &str,
        revision: u64,
        body: &Value,
    ) -> Result<(), BackendError> {
        self.send(Method::PUT, path, Some(revision), Some(body)).await?.check().map(drop)
    }

    /// Adds a tag.
    pub(super) async fn tag(&self, path: &str, tag: &str) -> Result<(), BackendError> {
        let path = format!("{path}/tags/{tag}");
        self.send(Method::PUT, &path, None, None).await?.check().map(drop)
    }

    /// Deletes an object, unless its revision is another one.
    pub(super) async fn delete(&self, path: &str, revision: u64) -> Result<(), BackendError> {
        let response = self.send(Method::DELETE, path, Some(revision), None).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(());
        }
        response.check().map(drop)
    }

    /// Sends a request; if its token has expired, again with a new one.
    async fn send(
        &self,
        method: Method,
        path: &str,
        revision: Option<u64>,
        body: Option<&Value>,
    ) -> Result<Response, BackendError> {
        let mut expired = None;
        loop {
            let session = self.session(expired.as_deref()).await?;
            let mut headers = Vec::new();
            if let Some(token) = &session.token {
                headers.push(("x-auth-token", token.clone()));
            }
            if let Some(revision) = revision {
                headers.push((IF_MATCH.as_str(), format!("revision_number={revision}")));
            }
            let url = format!("{}{path}", session.neutron);
            let response =
                self.http.send(Service::Neutron, method.clone(), &url, &headers, body).await?;
            if response.status() != StatusCode::UNAUTHORIZED || expired.is_some() {
                return Ok(response);
            }
            let Some(token) = session.token else { return Ok(response) };
            expired = Some(token);
        }
    }

    /// The present session, or a new one if its token is `expired`.
    async fn session(&self, expired: Option<&str>) -> Result<Session, BackendError> {
        let mut session = self.session.lock().await;
        let is_usable =
            |session: &&Session| expired.is_none() || session.token.as_deref() != expired;
        if let Some(session) = session.as_ref().filter(is_usable) {
            return Ok(session.clone());
        }
        let begun = self.authentication.begin(&self.http).await?;
        *session = Some(begun.clone());
        Ok(begun)
    }
}

struct Page<T> {
    objects: Vec<T>,
    /// The length of the response.
    size: usize,
    is_last: bool,
}

/// The query of a page, after the object with the identifier `marker`.
fn page_query<T: Listed>(filters: &[(&str, &str)], marker: Option<&Id>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filters);
    query.extend_pairs(T::FIELDS.iter().map(|field| ("fields", field)));
    query.extend_pairs([("sort_key", "id"), ("sort_dir", "asc"), ("limit", &PAGE.to_string())]);
    if let Some(marker) = marker {
        query.append_pair("marker", &marker.to_string());
    }
    query.finish()
}
