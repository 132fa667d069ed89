//! [`lines`]: splits a body into lines, independent of its frames. A line that is too long is an
//! error, so that a broken server cannot fill the memory.

use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, stream};
use http_body::Body;
use http_body_util::BodyExt;

use crate::transport::BoxError;
use informer::ListWatchError;

/// The maximum length of a line, longer than any event: etcd accepts objects up to 1.5 MiB by default.
pub(crate) const MAX_LINE_BYTES: usize = 32 << 20;

/// A line of a watch was cut off, or is too long: send the request again.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineError {
    #[error("a line was cut off after {0} bytes")]
    CutOff(usize),
    #[error("a line has more than {0} bytes")]
    TooLong(usize),
}

/// The lines of `body` without their line ends; empty lines are left out.
pub(crate) fn lines<B>(
    body: B,
    max_bytes: usize,
) -> impl Stream<Item = Result<Bytes, ListWatchError>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let (frame, partial_line) = (Bytes::new(), BytesMut::new());
    let reader = Reader { body, max_bytes, frame, partial_line, ended: false };
    stream::unfold(reader, |mut reader| async move {
        let line = reader.next().await.transpose()?;
        reader.ended |= line.is_err();
        Some((line, reader))
    })
}

struct Reader<B> {
    body: B,
    max_bytes: usize,
    /// The part of the last frame that was not read yet.
    frame: Bytes,
    /// The beginning of a line, from earlier frames.
    partial_line: BytesMut,
    ended: bool,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Reader<B> {
    async fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        while !self.ended {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.partial_line.len() > self.max_bytes {
                return Err(ListWatchError::Malformed(Box::new(LineError::TooLong(
                    self.max_bytes,
                ))));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.frame = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(ListWatchError::Connection(error.into())),
                None if self.partial_line.is_empty() => return Ok(None),
                None => {
                    let cut = LineError::CutOff(self.partial_line.len());
                    return Err(ListWatchError::Malformed(Box::new(cut)));
                }
            }
        }
        Ok(None)
    }

    /// The next line, if its end has been received. A line within one frame, as most are, is not
    /// copied.
    fn take_line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.frame) else {
            self.partial_line.extend_from_slice(&mem::take(&mut self.frame));
            return None;
        };
        let line = self.frame.split_to(end);
        self.frame.advance(1);
        if self.partial_line.is_empty() {
            return Some(line);
        }
        self.partial_line.extend_from_slice(&line);
        Some(self.partial_line.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    /// The lines of `text` if it arrives `size` bytes at a time.
    async fn check(text: &str, size: usize) -> Vec<String> {
        let frames: Vec<_> = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let frames = stream::iter(frames)
            .map(|bytes| Ok::<_, std::io::Error>(http_body::Frame::data(bytes)));
        let body = http_body_util::StreamBody::new(frames);
        lines(body, 8)
            .map(|line| match line {
                Ok(line) => String::from_utf8(line.to_vec()).unwrap(),
                Err(ListWatchError::Malformed(error)) => error.to_string(),
                Err(error) => error.to_string(),
            })
            .collect()
            .await
    }

    #[tokio::test]
    async fn lines_are_independent_of_frames() {
        for size in 1..12 {
            assert_eq!(check("abc\n\nde\nf\n", size).await, ["abc", "de", "f"], "by {size}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_cut_off_or_too_long_is_an_error() {
        assert_eq!(check("abc\nde", 3).await, ["abc", "a line was cut off after 2 bytes"]);
        assert_eq!(check("abc\n0123456789", 1).await, ["abc", "a line has more than 8 bytes"]);
    }
}
