//! Turns the error responses of a server or a proxy into a [`Status`].

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube_client::client::Body;

use informer::ListWatchError;
use machinery::status::Details;
use machinery::{Reason, Status};

/// The maximum size of an error response that is read.
const MAX_ERROR_BYTES: usize = 1 << 20;

/// Returns a successful response, and turns any other one into an error.
pub(crate) async fn error_for_status(
    response: Response<Body>,
) -> Result<Response<Body>, ListWatchError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ERROR_BYTES).collect().await;
    let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(ListWatchError::Refused(status_of(head.status, &head.headers, &bytes)))
}

fn status_of(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Status {
    let sent = serde_json::from_slice(body).ok().and_then(|value| Status::from_value(&value));
    let mut status = sent.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        let message = format!("the server responded with {code}: {}", text.trim());
        Status::new(code.as_u16(), Reason::Unknown, message)
    });
    status.code = code.as_u16();
    let retry_after = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
    if let Some(seconds) = retry_after {
        let details = status.details.get_or_insert_with(|| Box::new(Details::default()));
        details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry_after(status: &Status) -> u32 {
        status.details.as_ref().map_or(0, |details| details.retry_after_seconds)
    }

    #[test]
    fn an_error_page_of_a_proxy_becomes_a_status_with_its_retry_after() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, "7".parse().unwrap());
        let status = status_of(StatusCode::BAD_GATEWAY, &headers, b"<html>");
        assert_eq!((status.code, retry_after(&status)), (502, 7));
        assert_eq!(status.message, "the server responded with 502 Bad Gateway: <html>");
    }

    #[test]
    fn the_status_of_the_server_is_returned() {
        let sent = Status::too_many_requests("slow down", 3);
        let body = sent.to_value().to_string();
        let status = status_of(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body.as_bytes());
        assert_eq!(status, sent);
    }
}
