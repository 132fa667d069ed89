//! Records the sizes of responses.

use bytes::Bytes;
use prometheus_client::metrics::histogram::Histogram;

use crate::http::body::Body;

/// Adds the size of a body to `sizes`. The size of a body that is produced while it is sent is added
/// when all of it is sent or its client has disconnected.
#[allow(clippy::cast_precision_loss, reason = "a response has less than 2^53 bytes")]
pub(super) fn observe(body: Body, sizes: Histogram) -> Body {
    match body {
        Body::Chunks(chunks) => {
            sizes.observe(chunks.iter().map(Bytes::len).sum::<usize>() as f64);
            Body::Chunks(chunks)
        }
        Body::Shared(bytes) => {
            sizes.observe(bytes.len() as f64);
            Body::Shared(bytes)
        }
        Body::Lazy(mut chunks) => {
            let mut measurement = SizeMeasurement { sizes, bytes: 0 };
            let estimate = chunks.estimate;
            let next = move || {
                let chunk = chunks.next();
                measurement.add(chunk.as_ref().map_or(0, Bytes::len));
                chunk
            };
            Body::lazy(estimate, std::iter::from_fn(next))
        }
        stream @ Body::Stream(_) => stream,
    }
}

/// The bytes of a body so far.
struct SizeMeasurement {
    sizes: Histogram,
    bytes: usize,
}

impl SizeMeasurement {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for SizeMeasurement {
    #[allow(clippy::cast_precision_loss, reason = "a response has less than 2^53 bytes")]
    fn drop(&mut self) {
        self.sizes.observe(self.bytes as f64);
    }
}
