//! The body of a request: reads it up to the limit, or discards it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use machinery::Status;

/// The maximum size of a body in bytes.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// The body of a request, from a socket or from an in-process client.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// The body ended before it was complete. The value is the error of the transport.
#[derive(Debug, thiserror::Error)]
#[error("the request body is incomplete: {0}")]
pub(crate) struct BodyError(pub Box<dyn std::error::Error + Send + Sync>);

/// The number of bytes that are read and discarded if a body is unused or exceeds the limit. Most
/// clients send the whole body before they read the response, and otherwise see a broken connection
/// instead of the response.
const DISCARD_MAX: usize = 16 << 20;

/// The maximum time for which a body is discarded.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads a body up to the limit. `reserve` is called with the size of each chunk and may reject it.
pub(crate) async fn read(
    body: &mut RequestBody,
    mut reserve: impl FnMut(usize) -> Result<(), Status>,
) -> Result<Bytes, Status> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|it| Status::bad_request(format!("cannot read the body: {it}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > MAX_BODY {
            return Err(Status::too_large(&format!("limit is {MAX_BODY}")));
        }
        reserve(data.len())?;
        // Most bodies consist of one chunk. Other chunks are copied, since each may be a small part
        // of a large buffer that it would keep in memory.
        if collected.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

/// Reads and discards the rest of a body, up to [`DISCARD_MAX`] bytes and [`DISCARD_TIME`].
pub(crate) async fn discard(body: RequestBody) {
    let _ = tokio::time::timeout(DISCARD_TIME, discard_all(body)).await;
}

async fn discard_all(mut body: RequestBody) {
    let mut discarded = 0;
    while !body.is_end_stream()
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
        if discarded > DISCARD_MAX {
            return;
        }
    }
}
