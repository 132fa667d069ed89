//! [`Unpacker`]: decompresses gzip as it arrives.

use std::io;
use std::io::Write;

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Unpacker(Option<MultiGzDecoder<Vec<u8>>>);

impl Unpacker {
    /// Decompresses these bytes; returns what was not returned before.
    pub(crate) fn feed(&mut self, packed: &[u8]) -> io::Result<Bytes> {
        let decoder = self.0.get_or_insert_with(|| MultiGzDecoder::new(Vec::new()));
        decoder.write_all(packed)?;
        // The decoder holds its last output back, and the next frame of a watch may be late.
        decoder.flush()?;
        Ok(Bytes::from(std::mem::take(decoder.get_mut())))
    }

    /// The rest, after the last byte; an error if the stream was cut off.
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

    fn pack(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8], size: usize) -> io::Result<String> {
        let mut unpacker = Unpacker::default();
        let mut unpacked = Vec::new();
        for piece in packed.chunks(size) {
            unpacked.extend_from_slice(&unpacker.feed(piece)?);
        }
        unpacked.extend_from_slice(&unpacker.finish()?);
        Ok(String::from_utf8(unpacked).unwrap())
    }

    #[test]
    fn decompression_is_independent_of_frames() {
        let text = "a list of things, ".repeat(99);
        let packed = pack(&text);
        for size in [1, 7, packed.len()] {
            assert_eq!(unpack(&packed, size).unwrap(), text, "by {size}");
        }
    }

    #[test]
    fn sent_bytes_are_decompressed_at_once() {
        let (mut encoder, mut unpacker) =
            (GzEncoder::new(Vec::new(), Compression::fast()), Unpacker::default());
        for text in ["a short event", &"a long event, ".repeat(9999), "one more"] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let frame = std::mem::take(encoder.get_mut());
            assert_eq!(unpacker.feed(&frame).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_cut_or_damaged_stream_is_an_error() {
        let mut packed = pack("a list of things");
        assert!(unpack(&packed[..packed.len() - 3], 5).is_err());
        let last = packed.len() - 1;
        packed[last] ^= 1;
        assert!(unpack(&packed, 5).is_err());
        assert!(unpack(b"no gzip at all", 5).is_err());
        assert_eq!(unpack(b"", 1).unwrap(), "", "a HEAD has nothing to unpack");
    }
}
