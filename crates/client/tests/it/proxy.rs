//! [`Proxy`]: a small proxy that speaks CONNECT or SOCKS 5, and leads everybody to one server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use keel::Tasks;

/// See the [module documentation](self).
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// What was asked for: the server, and the password if there was one.
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    _tasks: Tasks,
}

impl Proxy {
    /// A proxy to `server` that requires this password, `Basic …`.
    pub(crate) async fn http(server: SocketAddr, password: &'static str) -> Self {
        Self::start(server, async move |stream, asked| tunnel(stream, password, asked).await).await
    }

    /// One that leads anybody to `server`.
    pub(crate) async fn socks(server: SocketAddr) -> Self {
        Self::start(server, socks).await
    }

    async fn start<F>(
        server: SocketAddr,
        greet: impl Fn(BufStream<TcpStream>, Arc<Mutex<Vec<String>>>) -> F + Clone + Send + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<Option<BufStream<TcpStream>>>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, tasks) = (Arc::default(), Tasks::new());
        let (noted, connections) = (Arc::clone(&asked), tasks.clone());
        tasks.spawn("proxy", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (greet, noted) = (greet.clone(), Arc::clone(&noted));
                connections.spawn("proxied", async move {
                    let greeted = greet(BufStream::new(stream), noted).await;
                    if let Ok(Some(mut stream)) = greeted {
                        let mut server = TcpStream::connect(server).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut server).await;
                    }
                });
            }
        });
        Self { address, asked, _tasks: tasks }
    }
}

async fn tunnel(
    mut stream: BufStream<TcpStream>,
    password: &str,
    asked: Arc<Mutex<Vec<String>>>,
) -> io::Result<Option<BufStream<TcpStream>>> {
    let (mut head, mut given) = (String::new(), String::new());
    stream.read_line(&mut head).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("proxy-authorization") {
            value.clone_into(&mut given);
        }
    }
    let server = head.trim().strip_prefix("CONNECT ").unwrap();
    let server = server.strip_suffix(" HTTP/1.1").unwrap();
    asked.lock().unwrap().push(format!("{server} {given}").trim().to_owned());
    let may = given == password;
    let code: &[u8] = if may { b"200 OK" } else { b"407 Proxy Authentication Required" };
    stream.write_all(&[b"HTTP/1.1 ", code, b"\r\n\r\n"].concat()).await?;
    stream.flush().await?;
    Ok(may.then_some(stream))
}

async fn socks(
    mut stream: BufStream<TcpStream>,
    asked: Arc<Mutex<Vec<String>>>,
) -> io::Result<Option<BufStream<TcpStream>>> {
    let mut greeting = [0; 3];
    stream.read_exact(&mut greeting).await?;
    assert_eq!(greeting, [5, 1, 0], "version 5, one method: no password");
    stream.write_all(&[5, 0]).await?;
    stream.flush().await?;
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    assert_eq!(head[..4], [5, 1, 0, 3], "to connect to a name");
    let mut name = vec![0; usize::from(head[4])];
    stream.read_exact(&mut name).await?;
    let port = stream.read_u16().await?;
    asked.lock().unwrap().push(format!("{}:{port}", String::from_utf8(name).unwrap()));
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await?;
    Ok(Some(stream))
}
