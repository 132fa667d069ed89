//! [`failure_message`]: the message of client-go for a response with an error status.

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;

use machinery::Value;
use machinery::codec;

/// See the [module documentation](self).
pub(crate) fn failure_message(answer: &Response<Bytes>) -> String {
    let decoded = codec::json::decode(answer.body()).map(|it| it.value).unwrap_or_default();
    if decoded["kind"] == "Status"
        && let Some(message) = decoded["message"].as_str().filter(|it| !it.is_empty())
    {
        return message.to_owned();
    }
    let media = answer.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let is_text = media.is_none_or(|it| it.starts_with("text/"));
    let text = String::from_utf8_lossy(answer.body());
    let response_text = if is_text { text.trim() } else { "unknown" };
    let message = match answer.status().as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => response_text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            let response_text = Value::from(response_text);
            return format!(
                "an error on the server ({response_text}) has prevented the request from succeeding"
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, media: &str, body: &str, expect: &str) {
        let answer = Response::builder().status(code).header(CONTENT_TYPE, media);
        let answer = answer.body(Bytes::from(body.to_owned())).unwrap();
        assert_eq!(failure_message(&answer), expect);
    }

    #[test]
    fn failures_have_the_messages_of_client_go() {
        check(
            500,
            "text/plain",
            "oh no\n",
            "an error on the server (\"oh no\") has prevented the request from succeeding",
        );
        check(
            500,
            "image/png",
            "…",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        );
        check(404, "text/plain", "404", "the server could not find the requested resource");
        check(
            302,
            "text/plain",
            "",
            "the server responded with the status code 302 but did not return more information",
        );
        let status = r#"{"kind":"Status","message":"no"}"#;
        check(500, "application/json", status, "no");
    }
}
