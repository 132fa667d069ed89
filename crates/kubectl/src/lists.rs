//! Reads objects and collections, page by page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::Error;
use crate::session::{JSON, Session, decode};
use crate::targets::Target;
use machinery::fields::text;
use machinery::{Reason, Value};

/// The number of objects in a page, as in kubectl.
pub(crate) const CHUNK: u32 = 500;

/// What need not be encoded in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What of a collection is read, and how.
#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    /// Selectors and other parameters.
    pub query: Vec<(&'static str, String)>,
    /// The media types of the response.
    pub accept: &'static str,
    /// Objects in a page; 0 for all at once.
    pub chunk: u32,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self { query: Vec::new(), accept: JSON, chunk: CHUNK }
    }
}

/// A path with parameters.
pub(crate) fn with_query(path: &str, query: &[(&'static str, String)]) -> String {
    let mut text = path.to_owned();
    for (index, (key, value)) in query.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(&format!("{key}={}", utf8_percent_encode(value, QUERY)));
    }
    text
}

/// The pages of a collection.
pub(crate) async fn pages(
    session: &Session,
    target: &Target,
    options: &ListOptions,
) -> Result<Vec<Value>, Error> {
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let mut query = options.query.clone();
        if options.chunk > 0 {
            query.push(("limit", options.chunk.to_string()));
        }
        if !token.is_empty() {
            query.push(("continue", token.clone()));
        }
        let read = session.get_bytes(&with_query(&target.path(), &query), options.accept).await;
        let page = decode(&read.map_err(|error| with_selectors(error, target, options))?)?;
        text(&page["metadata"], "continue").clone_into(&mut token);
        pages.push(page);
        if token.is_empty() {
            return Ok(pages);
        }
    }
}

/// Names the selectors in the error of a list, as kubectl does.
fn with_selectors(error: Error, target: &Target, options: &ListOptions) -> Error {
    let Error::Server(mut status) = error else { return error };
    if !matches!(status.reason, Reason::BadRequest | Reason::NotFound) {
        return Error::Server(status);
    }
    let resource = &target.resource;
    let what = format!("{}/{}, Resource={}", resource.group, resource.version, resource.name);
    let selector = |key| options.query.iter().find(|it| it.0 == key).map_or("", |it| &it.1);
    let (label, field) = (selector("labelSelector"), selector("fieldSelector"));
    status.message = if label.is_empty() && field.is_empty() {
        format!("Unable to list {what:?}: {}", status.message)
    } else {
        format!(
            "Unable to find {what:?} that match label selector {label:?}, field selector {field:?}: {}",
            status.message
        )
    };
    Error::Server(status)
}

/// The object of a target, or the objects of its collection, with their kinds.
pub(crate) async fn objects(
    session: &Session,
    target: &Target,
    options: &ListOptions,
) -> Result<Vec<Value>, Error> {
    if target.name.is_some() {
        return Ok(vec![session.get(&target.path()).await?]);
    }
    let pages = pages(session, target, options).await?;
    Ok(pages.into_iter().flat_map(items_with_kind).collect())
}

/// The items of a list. A list of a built-in kind says their kind only once.
pub(crate) fn items_with_kind(mut page: Value) -> Vec<Value> {
    let kind = text(&page, "kind").strip_suffix("List").unwrap_or_default().to_owned();
    let api_version = text(&page, "apiVersion").to_owned();
    let Some(Value::Array(mut items)) = page.get_mut("items").map(Value::take) else {
        return vec![page];
    };
    for item in &mut items {
        for (key, value) in [("kind", &kind), ("apiVersion", &api_version)] {
            if item[key].is_null() && item.is_object() {
                item[key] = value.as_str().into();
            }
        }
    }
    items
}
