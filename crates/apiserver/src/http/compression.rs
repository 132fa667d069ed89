//! Compresses large responses for remote clients that accept gzip.
//!
//! Responses over the loopback interface are not compressed: to copy bytes costs less than to
//! compress and decompress them. In-process clients receive uncompressed bytes.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderMap, HeaderValue, VARY,
};

use crate::http::body::Body;

/// The minimum size of a response that is compressed. Upstream: `defaultGzipThresholdBytes`.
const MIN_SIZE: usize = 128 << 10;

/// The minimum size of a compressed chunk, except for the last one.
const CHUNK: usize = 16 << 10;

/// The maximum number of bytes that are compressed at once: a chunk is shared with a cache, but its
/// compressed bytes are not, and must not be in memory before the client reads them.
const MAX_INPUT: usize = 64 << 10;

/// Whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .any(|it| it.split(';').next().is_some_and(|it| it.trim() == "gzip"))
}

/// Compresses a large response that is not compressed yet, chunk by chunk while it is sent.
pub(crate) fn compress(mut response: Response<Body>) -> Response<Body> {
    let length = match response.body() {
        Body::Chunks(chunks) => chunks.iter().map(Bytes::len).sum(),
        Body::Shared(bytes) => bytes.len(),
        Body::Lazy(chunks) => chunks.estimate,
        Body::Stream(_) => 0,
    };
    if length < MIN_SIZE || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(CONTENT_LENGTH);
    response.map(|body| match body {
        Body::Chunks(chunks) => Body::lazy(length, GzipChunks::new(chunks.into_iter())),
        Body::Shared(bytes) => Body::lazy(length, GzipChunks::new(std::iter::once(bytes))),
        Body::Lazy(chunks) => Body::lazy(length, GzipChunks::new(chunks)),
        stream @ Body::Stream(_) => stream,
    })
}

/// The gzip encoding of `chunks`.
struct GzipChunks<I> {
    chunks: I,
    /// The rest of a chunk of which the beginning is compressed.
    rest: Bytes,
    /// None after the last chunk.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Bytes>> GzipChunks<I> {
    fn new(chunks: I) -> Self {
        let rest = Bytes::new();
        Self { chunks, rest, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for GzipChunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let encoder = self.encoder.as_mut()?;
        loop {
            if self.rest.is_empty() {
                let Some(chunk) = self.chunks.next() else { break };
                self.rest = chunk;
            }
            let input = self.rest.split_to(self.rest.len().min(MAX_INPUT));
            encoder.write_all(&input).expect("a write to memory does not fail");
            // The encoder buffers input, and chunks below the minimum size are not worth a frame.
            if encoder.get_ref().len() >= CHUNK {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
        let rest = self.encoder.take()?.finish().expect("a write to memory does not fail");
        Some(rest.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    const PATTERN: &[u8] = b"sampan ";

    fn response(length: usize) -> Response<Body> {
        let text: Vec<u8> = PATTERN.iter().copied().cycle().take(length).collect();
        let chunks = text.chunks(100_000).map(Bytes::copy_from_slice).collect();
        Response::new(Body::Chunks(chunks))
    }

    #[tokio::test]
    async fn a_large_response_is_compressed_without_loss() {
        let compressed = compress(response(1_000_000));
        assert_eq!(compressed.headers()[CONTENT_ENCODING], "gzip");
        let bytes = compressed.into_body().collect().await.unwrap().to_bytes();
        assert!(bytes.len() < 100_000);
        let mut text = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), 1_000_000);
        assert!(text.iter().eq(PATTERN.iter().cycle().take(1_000_000)));
    }

    #[test]
    fn a_large_chunk_is_compressed_while_it_is_read() {
        // The numbers have no pattern that the compression would find.
        let mut state = 1_u32;
        let noise = std::iter::from_fn(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(state.to_be_bytes()[0])
        });
        let chunk: Bytes = noise.take(1_000_000).collect();
        let sizes = GzipChunks::new(std::iter::once(chunk)).map(|it| it.len());
        let largest = sizes.max().unwrap();
        assert!(largest < 2 * MAX_INPUT, "{largest}");
    }

    #[test]
    fn a_small_response_is_not_compressed() {
        assert!(!compress(response(1000)).headers().contains_key(CONTENT_ENCODING));
    }

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip") && accepts("deflate, gzip;q=0.5"));
        assert!(!accepts("deflate") && !accepts_gzip(&HeaderMap::new()));
    }
}
