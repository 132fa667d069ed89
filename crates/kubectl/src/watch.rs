//! [`Watch`]: the events of a collection, or of one object.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use http::Method;
use http::header::ACCEPT;
use http_body_util::BodyExt;
use kube_client::client::Body;

use crate::error::Error;
use crate::lists::with_query;
use crate::session::{Session, decode};
use crate::targets::Target;
use machinery::fields::text;
use machinery::{Status, Value};

/// See the [module documentation](self).
pub(crate) struct Watch {
    body: Pin<Box<dyn Stream<Item = Result<Vec<u8>, Error>> + Send>>,
    buffer: Vec<u8>,
}

/// A change.
pub(crate) struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`.
    pub kind: String,
    pub object: Value,
}

impl Watch {
    /// Begins a watch at a revision.
    pub(crate) async fn start(
        session: &Session,
        target: &Target,
        query: &[(&'static str, String)],
        accept: &str,
        resource_version: &str,
    ) -> Result<Self, Error> {
        let collection = Target { name: None, ..target.clone() };
        let mut query = query.to_vec();
        if let Some(name) = &target.name {
            query.retain(|it| it.0 != "fieldSelector");
            query.push(("fieldSelector", format!("metadata.name={name}")));
        }
        query.push(("watch", "true".to_owned()));
        query.push(("resourceVersion", resource_version.to_owned()));
        let path = with_query(&collection.path(), &query);
        let response = session.send(Method::GET, &path, &[(ACCEPT, accept)], Vec::new()).await?;
        Ok(Self { body: Box::pin(frames(response.into_body())), buffer: Vec::new() })
    }

    /// The next event; none when the server ends the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return event(&line).map(Some);
            }
            match self.body.next().await {
                Some(frame) => self.buffer.extend(frame?),
                None => return Ok(None),
            }
        }
    }
}

fn event(line: &[u8]) -> Result<Event, Error> {
    let mut event = decode(line)?;
    let kind = text(&event, "type").to_owned();
    let object = event["object"].take();
    if kind == "ERROR" {
        let status = Status::from_value(&object);
        return Err(status.map_or_else(|| Error::message("the watch has failed"), Error::from));
    }
    Ok(Event { kind, object })
}

/// The bytes of a body as they arrive.
pub(crate) fn frames(body: Body) -> impl Stream<Item = Result<Vec<u8>, Error>> + Send {
    body.into_data_stream().map(|frame| match frame {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(error) => Err(Error::Unreachable(format!("error: unexpected EOF: {error}"))),
    })
}
