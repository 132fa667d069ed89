//! [`Response`]: the response to a request, as it was sent.

use bytes::Bytes;
use http::header::{HeaderMap, WARNING};

use machinery::Value;

/// A response with its whole body.
///
/// ```
/// # use testenv::{Response, TestEnv, media_type::TABLE};
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let env = TestEnv::start().await;
/// let response: Response = env.get_as("/api/v1/namespaces/default", TABLE).await;
/// assert_eq!(response.code, 200);
/// assert_eq!(response.value()["kind"], "Table");
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status code.
    pub code: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
}

impl Response {
    /// The body as JSON. A body that is not JSON is a string.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&self.bytes).into_owned().into())
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("the body is UTF-8")
    }

    /// The texts of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let headers = self.headers.get_all(WARNING).iter();
        headers.map(|header| warning(header.to_str().expect("a warning is text"))).collect()
    }
}

fn warning(header: &str) -> String {
    let quoted = header.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
    quoted.unwrap_or_else(|| panic!("malformed warning: {header}")).replace("\\\"", "\"")
}
