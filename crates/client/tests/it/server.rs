//! [`Server`]: an HTTP server that responds to every request with a function of the test.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use keel::Tasks;

/// See the [module documentation](self).
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _tasks: Tasks,
}

impl Server {
    pub(crate) async fn start(
        respond: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = Tasks::new();
        let connections = tasks.clone();
        tasks.spawn("server", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let respond = respond.clone();
                let service = service_fn(move |request| {
                    let response = respond(&request);
                    async move { Ok::<_, Infallible>(response) }
                });
                connections.spawn("connection", async move {
                    let serving = http1::Builder::new();
                    let _ = serving.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, _tasks: tasks }
    }
}
