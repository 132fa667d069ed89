//! [`GzipDecoder`]: decompresses gzip as it arrives.

use std::io;
use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct GzipDecoder(Option<MultiGzDecoder<Vec<u8>>>);

impl GzipDecoder {
    /// Decompresses the next bytes of the stream.
    pub(crate) fn decode(&mut self, compressed: &[u8]) -> io::Result<Bytes> {
        let decoder = self.0.get_or_insert_with(|| MultiGzDecoder::new(Vec::new()));
        decoder.write_all(compressed)?;
        // The decoder holds its last output back, and the next frame of a watch may be late.
        decoder.flush()?;
        Ok(Bytes::from(std::mem::take(decoder.get_mut())))
    }

    /// The remaining output after the last byte of the stream; an error if the stream was cut off.
    pub(crate) fn finish(&mut self) -> io::Result<Bytes> {
        let Some(mut decoder) = self.0.take() else { return Ok(Bytes::new()) };
        decoder.try_finish()?;
        Ok(Bytes::from(std::mem::take(decoder.get_mut())))
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compress(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn decompress(compressed: &[u8], size: usize) -> io::Result<String> {
        let mut decompressor = GzipDecoder::default();
        let mut decompressed = Vec::new();
        for piece in compressed.chunks(size) {
            decompressed.extend_from_slice(&decompressor.decode(piece)?);
        }
        decompressed.extend_from_slice(&decompressor.finish()?);
        Ok(String::from_utf8(decompressed).unwrap())
    }

    #[test]
    fn decompression_is_independent_of_frames() {
        let text = "a list of things, ".repeat(99);
        let compressed = compress(&text);
        for size in [1, 7, compressed.len()] {
            assert_eq!(decompress(&compressed, size).unwrap(), text, "by {size}");
        }
    }

    #[test]
    fn flushed_bytes_are_decompressed_without_waiting_for_more() {
        let (mut encoder, mut decompressor) =
            (GzEncoder::new(Vec::new(), Compression::fast()), GzipDecoder::default());
        for text in ["a short event", &"a long event, ".repeat(9999), "one more"] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let frame = std::mem::take(encoder.get_mut());
            assert_eq!(decompressor.decode(&frame).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_cut_or_damaged_stream_is_an_error() {
        let mut compressed = compress("a list of things");
        assert!(decompress(&compressed[..compressed.len() - 3], 5).is_err());
        let last = compressed.len() - 1;
        compressed[last] ^= 1;
        assert!(decompress(&compressed, 5).is_err());
        assert!(decompress(b"no gzip at all", 5).is_err());
        assert_eq!(decompress(b"", 1).unwrap(), "", "the response to HEAD has no body");
    }
}
