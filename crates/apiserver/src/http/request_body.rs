//! The body of a request: read up to the limit, or read and thrown away.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use machinery::Status;
use std::time::Duration;

/// The largest body that is read.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// A request's body, from a socket or from within the process.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body that broke off, for whatever reason its bearer has.
#[derive(Debug, thiserror::Error)]
#[error("the body broke off: {0}")]
pub(crate) struct BodyError(pub Box<dyn std::error::Error + Send + Sync>);

/// Of a body that nobody wants, or that is over the limit, so much is read and thrown away: most
/// clients read no answer before they have sent everything, and would see a broken connection in
/// its place.
const DISCARD_MAX: usize = 16 << 20;

/// And for so long.
const DISCARD_TIME: Duration = Duration::from_secs(2);

/// Reads a body up to the limit. `account` is called with the size of each piece and may refuse it.
pub(crate) async fn read(
    body: &mut RequestBody,
    mut account: impl FnMut(usize) -> Result<(), Status>,
) -> Result<Bytes, Status> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|it| Status::bad_request(format!("cannot read the body: {it}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > MAX_BODY {
            return Err(Status::too_large(&format!("limit is {MAX_BODY}")));
        }
        account(data.len())?;
        // Most bodies come in one piece. The pieces of others are copied: each may be a small part
        // of a large buffer, which it would keep in memory.
        if collected.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.freeze())
}

/// Reads what is left of a body without keeping it, up to a point.
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
