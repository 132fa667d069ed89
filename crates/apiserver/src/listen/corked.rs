//! [`Corked`]: a transport that gathers what is written and sends it when told to.
//!
//! The HTTP/2 library flushes after every frame of more than a few hundred bytes, so fifty watchers
//! of one connection that are told of one change would cost fifty TLS records and fifty system
//! calls. Here a flush is only noted, and [`Cork::send`] sends what was gathered:
//!
//! ```text
//! connection  write flush write flush write flush        write flush
//! cork                                            send               send
//! transport                                       ──▶                ──▶     one system call each
//! ```
//!
//! Invariants:
//! - bytes leave in the order in which they were written, all of them before a shutdown;
//! - no more than [`LIMIT`] bytes wait: who writes to a peer that does not read is told to wait, as
//!   without this;
//! - once the cork is gone (the connection was upgraded), a flush is a flush again.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is gathered: what the TLS library takes at once.
const LIMIT: usize = 64 << 10;

/// What the gathering begins with, and goes on with, until it takes the limit: most turns write
/// little.
const SIZES: [usize; 2] = [4 << 10, 16 << 10];

/// The transport as the HTTP library sees it.
pub(super) struct Corked<T>(Arc<Mutex<Gathered<T>>>);

/// Sends what a [`Corked`] transport has gathered.
pub(super) struct Cork<T>(Arc<Mutex<Gathered<T>>>);

struct Gathered<T> {
    inner: T,
    waiting: Vec<u8>,
    /// How much of `waiting` has left already.
    sent: usize,
    /// How much `inner` has taken in all.
    taken: u64,
    /// `inner` did not take what was to be written past `waiting`.
    is_blocked: bool,
    /// Something has been given to `inner` since it was last flushed.
    unflushed: bool,
    /// Whether somebody sends what waits.
    corked: bool,
}

/// A transport, and what sends.
pub(super) fn corked<T>(inner: T) -> (Corked<T>, Cork<T>) {
    let gathered = Gathered {
        inner,
        waiting: Vec::new(),
        sent: 0,
        taken: 0,
        is_blocked: false,
        unflushed: false,
        corked: true,
    };
    let shared = Arc::new(Mutex::new(gathered));
    (Corked(Arc::clone(&shared)), Cork(shared))
}

fn lock<T>(transport: &Mutex<Gathered<T>>) -> MutexGuard<'_, Gathered<T>> {
    transport.lock().expect("nothing panics while it writes")
}

impl<T: AsyncWrite + Unpin> Cork<T> {
    /// Sends what was gathered, as much as the peer takes; the rest wakes `cx` when it takes more.
    /// A transport that is broken will say so to the connection, when that next reads or writes.
    pub(super) fn send(&self, cx: &mut Context<'_>) {
        let _ = lock(&self.0).poll_send(cx);
    }

    /// How much the peer has taken in all, if something waits that it has not taken.
    pub(super) fn stalled_at(&self) -> Option<u64> {
        let transport = lock(&self.0);
        let waits = !transport.waiting.is_empty() || transport.unflushed || transport.is_blocked;
        waits.then_some(transport.taken)
    }
}

impl<T> Drop for Cork<T> {
    fn drop(&mut self) {
        lock(&self.0).corked = false;
    }
}

impl<T: AsyncWrite + Unpin> Gathered<T> {
    /// Gives everything that waits to the transport below.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            let rest = &self.waiting[self.sent..];
            match ready!(Pin::new(&mut self.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.sent += written;
                    self.taken += written as u64;
                }
            }
            self.unflushed = true;
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends everything that waits. A transport that is idle holds no memory.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.waiting = Vec::new();
        if self.unflushed {
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= LIMIT {
            ready!(self.poll_drain(cx))?;
        }
        if self.waiting.is_empty()
            && let Some(large) = slices.iter().find(|it| !it.is_empty())
            && large.len() >= LIMIT
        {
            self.unflushed = true;
            let polled = Pin::new(&mut self.inner).poll_write(cx, large);
            self.is_blocked = polled.is_pending();
            let written = ready!(polled)?;
            self.taken += written as u64;
            return Poll::Ready(Ok(written));
        }
        let mut taken = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(LIMIT - self.waiting.len())];
            self.reserve(part.len());
            self.waiting.extend_from_slice(part);
            taken += part.len();
        }
        Poll::Ready(Ok(taken))
    }

    fn reserve(&mut self, more: usize) {
        let needed = self.waiting.len() + more;
        if needed > self.waiting.capacity() {
            let size = SIZES.into_iter().find(|it| *it >= needed).unwrap_or(LIMIT);
            self.waiting.reserve_exact(size - self.waiting.len());
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Corked<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        if !transport.corked {
            // Who upgraded the connection may read before it writes; what went before must leave.
            let _ = transport.poll_send(cx);
        }
        Pin::new(&mut transport.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_gather(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).poll_gather(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        if transport.corked { Poll::Ready(Ok(())) } else { transport.poll_send(cx) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut transport = lock(&self.0);
        ready!(transport.poll_send(cx))?;
        Pin::new(&mut transport.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Notes what reaches it, one line for each write and flush, and takes no more than `room`.
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

    fn wire(room: usize) -> (Corked<Wire>, Cork<Wire>) {
        corked(Wire { room, ..Wire::default() })
    }

    fn cx() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    /// Writes all of `bytes` in pieces, or as much as is taken; says how much.
    fn write(transport: &mut Corked<Wire>, bytes: &[u8]) -> usize {
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

    fn flush(transport: &mut Corked<Wire>) {
        assert!(Pin::new(transport).poll_flush(&mut cx()).is_ready());
    }

    fn log(transport: &Corked<Wire>) -> String {
        lock(&transport.0).inner.log.clone()
    }

    #[test]
    fn what_was_written_and_flushed_leaves_together() {
        let (mut transport, cork) = wire(usize::MAX);
        for _ in 0..3 {
            write(&mut transport, b"event");
            flush(&mut transport);
        }
        assert_eq!(log(&transport), "");
        cork.send(&mut cx());
        assert_eq!(log(&transport), "write 15\nflush\n");
        cork.send(&mut cx());
        assert_eq!(log(&transport), "write 15\nflush\n");
    }

    #[test]
    fn who_writes_to_a_peer_that_does_not_read_must_wait() {
        let (mut transport, cork) = wire(10);
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(3 * LIMIT).collect();
        let taken = write(&mut transport, &bytes);
        assert_eq!(taken, LIMIT);
        cork.send(&mut cx());
        assert_eq!(write(&mut transport, &bytes[taken..]), 0);
        lock(&transport.0).inner.room = usize::MAX;
        assert_eq!(write(&mut transport, &bytes[taken..]), bytes.len() - taken);
        cork.send(&mut cx());
        assert!(lock(&transport.0).inner.bytes == bytes);
    }

    #[test]
    fn all_leaves_before_a_shutdown() {
        let (mut transport, _cork) = wire(usize::MAX);
        write(&mut transport, b"last");
        assert!(Pin::new(&mut transport).poll_shutdown(&mut cx()).is_ready());
        assert_eq!(log(&transport), "write 4\nflush\nshutdown\n");
    }

    #[test]
    fn without_the_cork_a_flush_is_a_flush() {
        let (mut transport, cork) = wire(usize::MAX);
        write(&mut transport, b"head");
        flush(&mut transport);
        drop(cork);
        flush(&mut transport);
        assert_eq!(log(&transport), "write 4\nflush\n");
    }
}
