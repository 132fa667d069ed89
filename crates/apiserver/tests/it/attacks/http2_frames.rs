//! [`RawHttp2`]: an HTTP/2 connection that sends any frames and header blocks.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use testenv::TestEnv;
use tls::Trust;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A response with this code and body.
    Answered(u16, String),
    /// The stream was reset, or the connection was closed, with this code.
    Refused(u32),
    /// The connection was closed without a reason.
    Closed,
}

impl Outcome {
    /// The code of the response; 0 if there is none.
    pub(super) fn code(&self) -> u16 {
        if let Self::Answered(code, _) = self { *code } else { 0 }
    }
}

/// See the [module documentation](self).
pub(super) struct RawHttp2 {
    read: ReadHalf<TlsStream<TcpStream>>,
    write: WriteHalf<TlsStream<TcpStream>>,
}

impl RawHttp2 {
    /// Connects without a client certificate, and sends the preface.
    pub(super) async fn connect(plane: &TestEnv) -> Self {
        let trust = Trust::CaBundle(plane.server().authority().into());
        let mut config = tls::client_config(&trust, None).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TcpStream::connect(plane.server().address().unwrap()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (read, write) = tokio::io::split(stream);
        let mut raw = Self { read, write };
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        hello.extend(frame(SETTINGS, 0, 0, &[]));
        assert!(raw.send(&hello).await);
        raw
    }

    /// Sends bytes; returns whether the server still accepts them.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.write.write_all(bytes).await.is_ok() && self.write.flush().await.is_ok()
    }

    /// Sends bytes again and again while the frames of the server are read, and then `last`. The
    /// outcome is that of the request on a stream.
    pub(super) async fn flood(self, bytes: &[u8], times: u32, last: &[u8], stream: u32) -> Outcome {
        let Self { mut read, mut write } = self;
        let sending = async {
            let mut is_open = true;
            for _ in 0..times {
                is_open = is_open && write.write_all(bytes).await.is_ok();
            }
            if is_open && write.write_all(last).await.is_ok() {
                let _ = write.flush().await;
            }
            // The reader sees the answer, or the end of the connection.
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            never = sending => match never {},
            outcome = outcome(&mut read, stream) => outcome,
        }
    }

    /// The outcome of the request on a stream.
    pub(super) async fn outcome(&mut self, stream: u32) -> Outcome {
        outcome(&mut self.read, stream).await
    }
}

async fn outcome(read: &mut ReadHalf<TlsStream<TcpStream>>, stream: u32) -> Outcome {
    let reading = async {
        let (mut code, mut body, mut indexed) = (0, Vec::new(), 0);
        loop {
            let mut head = [0; 9];
            if read.read_exact(&mut head).await.is_err() {
                return Outcome::Closed;
            }
            let [a, b, c, kind, flags, id @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            if read.read_exact(&mut payload).await.is_err() {
                return Outcome::Closed;
            }
            let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            if kind == HEADERS {
                indexed = status(&payload, indexed);
            }
            match kind {
                GOAWAY if number(4) != 0 => return Outcome::Refused(number(4)),
                _ if u32::from_be_bytes(id) != stream => continue,
                RST_STREAM => return Outcome::Refused(number(0)),
                HEADERS => code = indexed,
                DATA => body.extend(&payload),
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                return Outcome::Answered(code, String::from_utf8_lossy(&body).into_owned());
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reading).await.unwrap()
}

/// The `:status`, which a header block begins with. `last` is that of the block before, which is in the
/// dynamic table if it is not in the static one.
fn status(block: &[u8], last: u16) -> u16 {
    match block[0] {
        0x88 => 200,
        0x8c => 400,
        0x8d => 404,
        0x8e => 500,
        // A literal whose name is the entry `:status` of the static table.
        0x48 | 0x08 | 0x18 => digits(&block[1..]),
        0xbe.. => last,
        other => panic!("a header block begins with {other:#x}"),
    }
}

/// A number in a string of HPACK, with or without Huffman's code.
fn digits(text: &[u8]) -> u16 {
    let length = usize::from(text[0] & 0x7f);
    let bytes = &text[1..=length];
    if text[0] & 0x80 == 0 {
        return std::str::from_utf8(bytes).unwrap().parse().unwrap();
    }
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut number = 0;
    loop {
        // The digits 0 to 2 have five bits, and the others six, of which the first is not zero.
        let mut code = 0;
        for _ in 0..5 {
            let Some(bit) = bits.next() else { return number };
            code = code << 1 | u16::from(bit);
        }
        let digit = match code {
            0..=2 => code,
            0b11111 => return number,
            _ => (code << 1 | u16::from(bits.next().unwrap())) - 0b01_1001 + 3,
        };
        number = number * 10 + digit;
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length.to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A header block of literals that are not indexed.
pub(super) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(u8::try_from(length).unwrap());
            } else {
                assert!(length < 127 + 128 * 128, "{length}");
                let rest = length - 127;
                block.push(127);
                block.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                block.push(u8::try_from(rest >> 7).unwrap());
            }
            block.extend(text.as_bytes());
        }
    }
    block
}
