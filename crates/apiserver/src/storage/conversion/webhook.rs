//! [`ConversionWebhook`]: calls the conversion webhook of a CRD over HTTPS.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, Uri};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};

use super::metrics::Failure;
use super::review::{self, ReviewVersion};
use crate::http::request_body::MAX_BODY;
use crate::outbound::ClientConfig;
use crate::storage::Storage;
use machinery::{Object, Value, codec};

/// The time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of objects in one request. More objects are sent in several requests, one after
/// the other.
const MAX_OBJECTS: usize = 1000;

/// The maximum size of the objects in one request, unless it has only one object.
const MAX_BYTES: usize = 8 << 20;

/// The maximum size of a response.
const MAX_RESPONSE: usize = 64 << 20;

/// See the [module documentation](self).
pub(super) struct ConversionWebhook {
    /// The first review version of the CRD's list that this server supports.
    review: Option<ReviewVersion>,
    client: ClientConfig,
}

impl ConversionWebhook {
    /// Reads `spec.conversion.webhook` of a CRD.
    pub(super) fn new(webhook: &Value) -> Self {
        let reviews = webhook["conversionReviewVersions"].as_array();
        let mut names = reviews.into_iter().flatten().filter_map(Value::as_str);
        let client = ClientConfig::from_value(&webhook["clientConfig"]);
        Self { review: names.find_map(ReviewVersion::from_name), client }
    }

    /// Converts the objects, none of which is in `desired_api_version`, and keeps their order. The
    /// error is upstream's message.
    pub(super) async fn convert(
        &self,
        storage: &Storage,
        desired_api_version: &str,
        objects: Vec<Object>,
    ) -> Result<Vec<Object>, String> {
        let mut converted = Vec::with_capacity(objects.len());
        let mut rest = objects.into_iter().map(|it| (it.to_bytes(), it)).peekable();
        while rest.peek().is_some() {
            let (mut chunk, mut sent, mut size) = (Vec::new(), Vec::new(), 0);
            let fits = |(bytes, _): &(Vec<u8>, Object), size: usize, count: usize| {
                count == 0 || (count < MAX_OBJECTS && size + bytes.len() <= MAX_BYTES)
            };
            while let Some((bytes, object)) = rest.next_if(|it| fits(it, size, chunk.len())) {
                size += bytes.len();
                sent.push(bytes);
                chunk.push(object);
            }
            converted.extend(self.convert_chunk(storage, desired_api_version, chunk, &sent).await?);
        }
        Ok(converted)
    }

    async fn convert_chunk(
        &self,
        storage: &Storage,
        desired_api_version: &str,
        objects: Vec<Object>,
        sent: &[Vec<u8>],
    ) -> Result<Vec<Object>, String> {
        let review = self.review.ok_or("no supported conversion review versions")?;
        let gvk = objects.first().map(Object::gvk).unwrap_or_default();
        let uid = storage.entropy.uuid();
        let request = review.request(&uid, desired_api_version, sent);
        // A converted object is not larger than the largest object that this server accepts.
        let limit = MAX_BODY.saturating_mul(objects.len()).min(MAX_RESPONSE);
        let started = Instant::now();
        let answer = self.call(storage, request, limit).await;
        let record = |failure| storage.conversion.record_request(failure, started.elapsed());
        let failed = |failure: Failure, why: String| {
            record(Some(failure));
            let message = format!("conversion webhook for {gvk} failed: {why}");
            tracing::warn!(desired_api_version, message, "a conversion failed");
            message
        };
        let body = answer.map_err(|why| failed(Failure::Call, why))?;
        let returned =
            review.decode_response(&uid, &body).map_err(|why| failed(Failure::Malformed, why))?;
        let is_complete = returned.len() == objects.len();
        let converted = review::validate_objects(&gvk, desired_api_version, objects, returned);
        record(match &converted {
            Ok(_) => None,
            Err(_) if is_complete => Some(Failure::Object),
            Err(_) => Some(Failure::Partial),
        });
        converted
    }

    /// The body of the response. The error is the message of Go's client.
    async fn call(&self, storage: &Storage, body: Vec<u8>, limit: usize) -> Result<Bytes, String> {
        let url = self.client.request_url(TIMEOUT.as_secs());
        let failed = |why: &dyn std::fmt::Display| format!("Post \"{url}\": {why}");
        let uri: Uri = url.parse().map_err(|why: http::uri::InvalidUri| failed(&why))?;
        let to = self.client.destination(storage).map_err(|why| failed(&why))?;
        let request = Request::post(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .body(Full::new(Bytes::from(body)))
            .map_err(|why| failed(&why))?;
        let deadline = Instant::now() + TIMEOUT;
        let call = storage.outbound.call(&to, request, limit, deadline);
        let Ok(answer) = timeout_at(deadline, call).await else {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            return Err(failed(&why));
        };
        let answer = answer.map_err(|why| failed(&why))?;
        match answer.status().as_u16() {
            200..=206 => Ok(answer.into_body()),
            code => Err(error_text(code, answer.body())),
        }
    }
}

/// The error message of client-go for an unsuccessful response: that of the Status in the body, or one
/// for the code.
fn error_text(code: u16, body: &[u8]) -> String {
    let status = codec::json::decode(body).ok().and_then(|it| Object::from_value(it.value));
    if let Some(status) = status.filter(|it| it.kind() == "Status") {
        return status.str_at(&["message"]).to_owned();
    }
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => String::from_utf8_lossy(body).trim().to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => {
            let text = String::from_utf8_lossy(body);
            format!(
                "an error on the server ({:?}) has prevented the request from succeeding",
                text.trim()
            )
        }
        code => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_message_of_its_status_or_of_its_code() {
        let status = br#"{"kind":"Status","apiVersion":"v1","message":"not today"}"#;
        assert_eq!(error_text(500, status), "not today");
        assert_eq!(error_text(404, b""), "the server could not find the requested resource");
        assert_eq!(
            error_text(500, b"broken\n"),
            "an error on the server (\"broken\") has prevented the request from succeeding"
        );
    }
}
