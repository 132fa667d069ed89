//! A server in memory, which answers one request at a time.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

use apiserver::auth::authentication::User;
use testenv::TestEnv;

/// See the [module documentation](self). It runs on the calling thread, so that its CPU time is
/// measured.
pub struct FuzzServer {
    runtime: Runtime,
    env: TestEnv,
}

/// The user of a request.
#[derive(Clone, Copy)]
pub enum Sender {
    Administrator,
    UserWithoutRights,
}

impl FuzzServer {
    /// Starts the server.
    pub fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Requests that wait for a revision time out by the clock of the plane.
        let env = runtime.block_on(TestEnv::builder().system_clock().start());
        Self { runtime, env }
    }

    /// Sends a request and returns the code of the response.
    pub fn send(&self, request: Request<Vec<u8>>, sender: Sender) -> u16 {
        let without_rights = User {
            name: "u".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        let client = self.env.server().in_process_client();
        let mut client = match sender {
            Sender::Administrator => client,
            Sender::UserWithoutRights => client.for_user(without_rights),
        };
        let request = request.map(|it| Full::new(Bytes::from(it)));
        self.runtime.block_on(async move {
            let Ok(response) = client.call(request).await;
            let code = response.status().as_u16();
            // A watch has no end.
            let body = response.into_body().collect();
            let _ = tokio::time::timeout(std::time::Duration::from_millis(1), body).await;
            code
        })
    }
}

thread_local! {
    /// One server for all inputs, whose requests are dry runs.
    pub static SERVER: FuzzServer = FuzzServer::start();
}
