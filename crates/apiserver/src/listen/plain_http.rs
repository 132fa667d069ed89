//! [`refuse_plain_http`]: tells a client that speaks HTTP without TLS what is wrong.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// In the words of Go's server.
const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Whether the client did not begin with a TLS record, and was told so.
pub(super) async fn refuse_plain_http(stream: &mut TcpStream) -> bool {
    // The method of a request begins with a letter, a TLS handshake with the byte 22.
    let mut first = [0];
    if !matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_uppercase()) {
        return false;
    }
    // Closing a connection on which something is unread resets it, and the answer may be lost.
    let _ = stream.read(&mut [0; 4096]).await;
    let _ = stream.write_all(ANSWER).await;
    let _ = stream.shutdown().await;
    true
}
