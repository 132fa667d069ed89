//! [`refuse_plain_http`]: the response to clients that send HTTP without TLS.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The response of Go's server.
const RESPONSE: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Responds with 400 if the client sends HTTP without TLS; returns whether it does.
pub(super) async fn refuse_plain_http(stream: &mut TcpStream) -> bool {
    // The method of an HTTP request begins with a letter, a TLS handshake with the byte 22.
    let mut first = [0];
    if !matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_uppercase()) {
        return false;
    }
    // Closing a connection with unread bytes resets it, and the response may be lost.
    let _ = stream.read(&mut [0; 4096]).await;
    let _ = stream.write_all(RESPONSE).await;
    let _ = stream.shutdown().await;
    true
}
