//! [`Watch`]: the events of a watch.

use http_body_util::BodyExt;

use crate::client::within_limit;
use apiserver::http::body::Body;
use machinery::Value;

/// A watch, begun by [`Client::watch`](crate::Client::watch).
///
/// ```
/// # use {machinery::json, testenv::{TestEnv, Watch}};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// const MAPS: &str = "/api/v1/namespaces/default/configmaps";
///
/// let env = TestEnv::start().await;
/// let mut watch: Watch = env.watch(&format!("{MAPS}?watch=1")).await;
/// env.create(MAPS, &json!({"metadata": {"name": "a"}})).await;
/// let created = watch.expect("ADDED").await;
/// assert_eq!(created["metadata"]["name"], "a");
/// # });
/// ```
pub struct Watch {
    body: Body,
    /// Bytes received after the last line.
    bytes: Vec<u8>,
}

impl Watch {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, bytes: Vec::new() }
    }

    /// The type and the object of the next event; None at the end of the watch.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        let line = self.next_line().await?;
        let mut event: Value = serde_json::from_str(&line).expect("an event is JSON");
        let event_type = event["type"].as_str().expect("an event has a type").to_owned();
        Some((event_type, event["object"].take()))
    }

    /// The next event as it was sent; None at the end of the watch.
    pub async fn next_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                return Some(String::from_utf8(line).expect("an event is UTF-8"));
            }
            let frame = within_limit(self.body.frame(), "an event").await?;
            let data = frame.expect("the watch is not truncated").into_data();
            self.bytes.extend_from_slice(&data.expect("a watch has no trailers"));
        }
    }

    /// The type of the next event and the name of its object, as in `ADDED default`.
    pub async fn next_summary(&mut self) -> String {
        let (event_type, object) = self.next().await.expect("the watch has not ended");
        format!("{event_type} {}", object["metadata"]["name"].as_str().unwrap_or_default())
    }

    /// The object of the next event, which must be of this type.
    pub async fn expect(&mut self, event_type: &str) -> Value {
        let next = self.next().await;
        let (found, object) = next.unwrap_or_else(|| panic!("the watch ended before {event_type}"));
        assert_eq!(found, event_type, "{object}");
        object
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
