//! [`lines`]: a body as its lines, however it was cut into frames. A line that does not end is an
//! error once it is too long, so that a broken server cannot fill the memory.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use http_body::Body;
use http_body_util::BodyExt;
use informer::ListWatchError;

use crate::transport::BoxError;

/// No object is so long: etcd takes 1.5 MiB by default, and hardly more at best.
pub(crate) const LONGEST_LINE: usize = 32 << 20;

/// A watch that was cut in the middle of a line, or a line beyond all measure: ask again.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("a line was cut off after {0} bytes")]
    CutOff(usize),
    #[error("a line has more than {0} bytes")]
    TooLong(usize),
}

/// The lines of `body` without their ends; empty ones are left out.
pub(crate) fn lines<B>(body: B, longest: usize) -> impl Stream<Item = Result<Bytes, ListWatchError>>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let reader = Reader { body, longest, buffer: BytesMut::new(), searched: 0, over: false };
    stream::unfold(reader, |mut reader| async move {
        let line = reader.next().await.transpose()?;
        reader.over |= line.is_err();
        Some((line, reader))
    })
}

struct Reader<B> {
    body: B,
    longest: usize,
    buffer: BytesMut,
    /// There is no end of a line among so many bytes at the front of the buffer.
    searched: usize,
    over: bool,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Reader<B> {
    async fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        while !self.over {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.buffer.len() > self.longest {
                return Err(ListWatchError::Malformed(Box::new(BadLine::TooLong(self.longest))));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.buffer.extend_from_slice(bytes);
                    }
                }
                Some(Err(error)) => return Err(ListWatchError::Connection(error.into())),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    let cut = BadLine::CutOff(self.buffer.len());
                    return Err(ListWatchError::Malformed(Box::new(cut)));
                }
            }
        }
        Ok(None)
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.searched = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        line.truncate(line.len() - 1);
        Some(line.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;

    /// What comes out of `text` when it arrives `size` bytes at a time.
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
    async fn lines_are_the_same_however_they_arrive() {
        for size in 1..12 {
            assert_eq!(check("abc\n\nde\nf\n", size).await, ["abc", "de", "f"], "by {size}");
        }
    }

    #[tokio::test]
    async fn a_line_that_was_cut_off_or_never_ends_is_an_error() {
        assert_eq!(check("abc\nde", 3).await, ["abc", "a line was cut off after 2 bytes"]);
        assert_eq!(check("abc\n0123456789", 1).await, ["abc", "a line has more than 8 bytes"]);
    }
}
