//! [`BufferedTransport`]: a transport that buffers writes until [`WriteBuffer::send`].
//!
//! The HTTP/2 library flushes after every frame of more than a few hundred bytes, so an event for fifty
//! watches of one connection would cost fifty TLS records and fifty system calls. Here a flush sends
//! nothing; [`WriteBuffer::send`] sends what was collected:
//!
//! ```text
//! connection    write flush write flush write flush        write flush
//! write buffer                                      send               send
//! transport                                         ──▶                ──▶     one system call each
//! ```
//!
//! Invariants:
//! - bytes leave in the order in which they were written, all of them before a shutdown;
//! - no more than [`LIMIT`] bytes are collected: a writer to a peer that does not read waits, as
//!   without the buffer;
//! - after the [`WriteBuffer`] is dropped (the connection was upgraded), a flush sends at once.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum number of buffered bytes: the amount that the TLS library takes at once.
const LIMIT: usize = 64 << 10;

/// The first two capacities of the buffer, before it grows to the limit: most polls write little.
const FIRST_CAPACITIES: [usize; 2] = [4 << 10, 16 << 10];

/// The transport as the HTTP library sees it.
pub(super) struct BufferedTransport<T>(Arc<Mutex<Buffered<T>>>);

/// Sends the bytes that a [`BufferedTransport`] has buffered.
pub(super) struct WriteBuffer<T>(Arc<Mutex<Buffered<T>>>);

struct Buffered<T> {
    inner: T,
    pending: Vec<u8>,
    /// The number of bytes of `pending` that were written to `inner`.
    written: usize,
    /// The total number of bytes that `inner` has accepted.
    accepted: u64,
    /// Whether `inner` did not accept a large write that bypasses `pending`.
    is_blocked: bool,
    /// Whether bytes were written to `inner` since its last flush.
    unflushed: bool,
    /// Whether a [`WriteBuffer`] exists that sends the buffered bytes.
    is_buffering: bool,
}

/// A transport and its buffer.
pub(super) fn buffered<T>(inner: T) -> (BufferedTransport<T>, WriteBuffer<T>) {
    let transport = Buffered {
        inner,
        pending: Vec::new(),
        written: 0,
        accepted: 0,
        is_blocked: false,
        unflushed: false,
        is_buffering: true,
    };
    let shared = Arc::new(Mutex::new(transport));
    (BufferedTransport(Arc::clone(&shared)), WriteBuffer(shared))
}

fn lock<T>(transport: &Mutex<Buffered<T>>) -> MutexGuard<'_, Buffered<T>> {
    transport.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: AsyncWrite + Unpin> WriteBuffer<T> {
    /// Sends as many of the buffered bytes as the transport accepts; `cx` is woken when it accepts
    /// more. An error of the transport is returned by the next read or write of the connection.
    pub(super) fn send(&self, cx: &mut Context<'_>) {
        let _ = lock(&self.0).poll_send(cx);
    }

    /// The total number of bytes that the transport has accepted; None if no bytes wait to be sent.
    pub(super) fn stalled_at(&self) -> Option<u64> {
        let transport = lock(&self.0);
        let has_unsent =
            !transport.pending.is_empty() || transport.unflushed || transport.is_blocked;
        has_unsent.then_some(transport.accepted)
    }
}

impl<T> Drop for WriteBuffer<T> {
    fn drop(&mut self) {
        lock(&self.0).is_buffering = false;
    }
}

impl<T: AsyncWrite + Unpin> Buffered<T> {
    /// Writes all buffered bytes to the inner transport.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.pending.len() {
            let rest = &self.pending[self.written..];
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.written += written;
                    self.accepted += written as u64;
                }
            }
            self.unflushed = true;
        }
        self.pending.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends all buffered bytes and releases the buffer, so that an idle transport holds no memory.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.pending = Vec::new();
        if self.unflushed {
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Buffers as much of `slices` as fits.
    fn poll_buffer(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.pending.len() >= LIMIT {
            ready!(self.poll_drain(cx))?;
        }
        // A large slice is written to the inner transport without a copy.
        if self.pending.is_empty()
            && let Some(large) = slices.iter().find(|it| !it.is_empty())
            && large.len() >= LIMIT
        {
            self.unflushed = true;
            let polled = Pin::new(&mut self.inner).poll_write(cx, large);
            self.is_blocked = polled.is_pending();
            let written = ready!(polled)?;
            self.accepted += written as u64;
            return Poll::Ready(Ok(written));
        }
        let mut taken = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(LIMIT - self.pending.len())];
            self.reserve(part.len());
            self.pending.extend_from_slice(part);
            taken += part.len();
        }
        Poll::Ready(Ok(taken))
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.pending.len() + more;
        if needed > self.pending.capacity() {
            let size = FIRST_CAPACITIES.into_iter().find(|it| *it >= needed).unwrap_or(LIMIT);
            self.pending.reserve_exact(size - self.pending.len());
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for BufferedTransport<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        if !transport.is_buffering {
            // After an upgrade, a read may come before a write; the buffered bytes must be sent first.
            let _ = transport.poll_send(cx);
        }
        Pin::new(&mut transport.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for BufferedTransport<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_buffer(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_buffer(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        if transport.is_buffering { Poll::Ready(Ok(())) } else { transport.poll_send(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        ready!(transport.poll_send(cx))?;
        Pin::new(&mut transport.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A transport that logs each write and flush in a line, and accepts no more than `room` bytes.
    #[derive(Default)]
    struct Wire {
        log: String,
        bytes: Vec<u8>,
        room: usize,
    }

    impl AsyncWrite for Wire {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = buf.len().min(self.room);
            if taken == 0 {
                return Poll::Pending;
            }
            self.room -= taken;
            self.bytes.extend_from_slice(&buf[..taken]);
            self.log.push_str(&format!("write {taken}\n"));
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.log.push_str("flush\n");
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.log.push_str("shutdown\n");
            Poll::Ready(Ok(()))
        }
    }

    fn wire(room: usize) -> (BufferedTransport<Wire>, WriteBuffer<Wire>) {
        buffered(Wire { room, ..Wire::default() })
    }

    fn cx() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    /// Writes `bytes` in pieces until no more is accepted; returns the number of bytes written.
    fn write(transport: &mut BufferedTransport<Wire>, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            let piece = &bytes[written..bytes.len().min(written + 1000)];
            match Pin::new(&mut *transport).poll_write(&mut cx(), piece) {
                Poll::Ready(taken) => written += taken.unwrap(),
                Poll::Pending => break,
            }
        }
        written
    }

    fn flush(transport: &mut BufferedTransport<Wire>) {
        assert!(Pin::new(transport).poll_flush(&mut cx()).is_ready());
    }

    fn log(transport: &BufferedTransport<Wire>) -> String {
        lock(&transport.0).inner.log.clone()
    }

    #[test]
    fn several_writes_and_flushes_are_sent_together() {
        let (mut transport, buffer) = wire(usize::MAX);
        for _ in 0..3 {
            write(&mut transport, b"event");
            flush(&mut transport);
        }
        assert_eq!(log(&transport), "");
        buffer.send(&mut cx());
        assert_eq!(log(&transport), "write 15\nflush\n");
        buffer.send(&mut cx());
        assert_eq!(log(&transport), "write 15\nflush\n");
    }

    #[test]
    fn a_writer_waits_if_the_peer_does_not_read() {
        let (mut transport, buffer) = wire(10);
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * LIMIT).collect();
        let taken = write(&mut transport, &bytes);
        assert_eq!(taken, LIMIT);
        buffer.send(&mut cx());
        assert_eq!(write(&mut transport, &bytes[taken..]), 0);
        lock(&transport.0).inner.room = usize::MAX;
        assert_eq!(write(&mut transport, &bytes[taken..]), bytes.len() - taken);
        buffer.send(&mut cx());
        assert!(lock(&transport.0).inner.bytes == bytes);
    }

    #[test]
    fn everything_is_sent_before_a_shutdown() {
        let (mut transport, _buffer) = wire(usize::MAX);
        write(&mut transport, b"last");
        assert!(Pin::new(&mut transport).poll_shutdown(&mut cx()).is_ready());
        assert_eq!(log(&transport), "write 4\nflush\nshutdown\n");
    }

    #[test]
    fn without_the_write_buffer_a_flush_sends_at_once() {
        let (mut transport, buffer) = wire(usize::MAX);
        write(&mut transport, b"head");
        flush(&mut transport);
        drop(buffer);
        flush(&mut transport);
        assert_eq!(log(&transport), "write 4\nflush\n");
    }
}
