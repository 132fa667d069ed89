//! [`Proxy`]: a small proxy that supports CONNECT or SOCKS 5, and connects all clients to one server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use keel::Tasks;

/// See the [module documentation](self).
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// The requested servers, each with the credentials if the client sent any.
    pub(crate) requested: Arc<Mutex<Vec<String>>>,
    _tasks: Tasks,
}

impl Proxy {
    /// An HTTP proxy to `server` that requires these credentials, `Basic …`; empty for none.
    pub(crate) async fn http(server: SocketAddr, credentials: &'static str) -> Self {
        Self::start(server, async move |stream, requested| {
            tunnel(stream, credentials, requested).await
        })
        .await
    }

    /// A SOCKS proxy to `server`.
    pub(crate) async fn socks(server: SocketAddr) -> Self {
        Self::start(server, socks).await
    }

    async fn start<F>(
        server: SocketAddr,
        negotiate: impl Fn(BufStream<TcpStream>, Arc<Mutex<Vec<String>>>) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<Option<BufStream<TcpStream>>>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requested, tasks) = (Arc::default(), Tasks::new());
        let (recorded, connections) = (Arc::clone(&requested), tasks.clone());
        tasks.spawn("proxy", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (negotiate, recorded) = (negotiate.clone(), Arc::clone(&recorded));
                connections.spawn("proxied", async move {
                    let negotiated = negotiate(BufStream::new(stream), recorded).await;
                    if let Ok(Some(mut stream)) = negotiated {
                        let mut server = TcpStream::connect(server).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut server).await;
                    }
                });
            }
        });
        Self { address, requested, _tasks: tasks }
    }
}

async fn tunnel(
    mut stream: BufStream<TcpStream>,
    credentials: &str,
    requested: Arc<Mutex<Vec<String>>>,
) -> io::Result<Option<BufStream<TcpStream>>> {
    let (mut head, mut sent_credentials) = (String::new(), String::new());
    stream.read_line(&mut head).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("proxy-authorization") {
            value.clone_into(&mut sent_credentials);
        }
    }
    let server = head.trim().strip_prefix("CONNECT ").unwrap();
    let server = server.strip_suffix(" HTTP/1.1").unwrap();
    requested.lock().unwrap().push(format!("{server} {sent_credentials}").trim().to_owned());
    let is_authorized = sent_credentials == credentials;
    let code: &[u8] = if is_authorized { b"200 OK" } else { b"407 Proxy Authentication Required" };
    stream.write_all(&[b"HTTP/1.1 ", code, b"\r\n\r\n"].concat()).await?;
    stream.flush().await?;
    Ok(is_authorized.then_some(stream))
}

async fn socks(
    mut stream: BufStream<TcpStream>,
    requested: Arc<Mutex<Vec<String>>>,
) -> io::Result<Option<BufStream<TcpStream>>> {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(greeting, [5, 1, 0], "version 5, one method: no authentication");
    // Version 5; the method without authentication is chosen.
    stream.write_all(&[5, 0]).await?;
    stream.flush().await?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    assert_eq!(head[..4], [5, 1, 0, 3], "version 5, CONNECT, reserved, a domain name");
    let mut name = vec![0; usize::from(head[4])];
    stream.read_exact(&mut name).await?;
    let port = stream.read_u16().await?;
    requested.lock().unwrap().push(format!("{}:{port}", String::from_utf8(name).unwrap()));
    // Version 5, success, and an IPv4 address and port, which clients ignore.
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await?;
    Ok(Some(stream))
}
