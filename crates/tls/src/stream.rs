//! [`Stream`]: a connection for hyper, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;

/// See the [module documentation](self). Its metadata tells a pool whether it uses HTTP/2, and has
/// `extra` for the requests of the connection.
#[derive(Debug)]
pub struct Stream<T, E = ()> {
    io: Io<T>,
    extra: E,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "almost all connections use TLS")]
enum Io<T> {
    Plain(TokioIo<T>),
    Tls(TokioIo<TlsStream<T>>),
}

impl<T> Stream<T> {
    /// A connection without TLS.
    pub fn plain(stream: T) -> Self {
        Self { io: Io::Plain(TokioIo::new(stream)), extra: () }
    }

    /// A connection after the TLS handshake.
    pub(crate) fn tls(stream: TlsStream<T>) -> Self {
        Self { io: Io::Tls(TokioIo::new(stream)), extra: () }
    }

    /// Adds a value to the metadata of the connection.
    pub fn with_extra<E>(self, extra: E) -> Stream<T, E> {
        Stream { io: self.io, extra }
    }
}

impl<T, E> Stream<T, E> {
    /// Whether the TLS handshake has negotiated HTTP/2.
    pub fn is_http2(&self) -> bool {
        match &self.io {
            Io::Plain(_) => false,
            Io::Tls(stream) => stream.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl<T, E> Connection for Stream<T, E>
where
    T: AsyncRead + AsyncWrite + Connection + Unpin,
    E: Clone + Send + Sync + 'static,
{
    fn connected(&self) -> Connected {
        let connected = match &self.io {
            Io::Plain(stream) => stream.inner().connected(),
            Io::Tls(stream) => stream.inner().get_ref().0.connected(),
        };
        let connected = connected.extra(self.extra.clone());
        if self.is_http2() { connected.negotiated_h2() } else { connected }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin, E: Unpin> Read for Stream<T, E> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Io::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin, E: Unpin> Write for Stream<T, E> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Io::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Io::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(stream) => stream.is_write_vectored(),
            Io::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Io::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Io::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
