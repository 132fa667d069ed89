//! [`MuteProxy`]: a TCP proxy whose connections can stop forwarding without being closed.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use keel::Tasks;

/// See the [module documentation](self). The proxy ends with the test.
pub(crate) struct MuteProxy {
    pub(crate) address: SocketAddr,
    muted: watch::Sender<()>,
}

impl MuteProxy {
    /// Starts a proxy that forwards to `server`.
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let muted = watch::Sender::new(());
        let (tasks, mute) = (Tasks::new(), muted.clone());
        let connections = tasks.clone();
        tasks.spawn("accept", async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut mute = mute.subscribe();
                connections.spawn("connection", async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = mute.changed() => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, muted }
    }

    /// Stops forwarding on the existing connections. New connections work.
    pub(crate) fn mute_connections(&self) {
        self.muted.send_replace(());
    }
}
