//! A server in memory, which answers one request at a time.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service;

use apiserver::auth::authentication::User;
use testenv::TestEnv;

/// See the [module documentation](self). It runs on the calling thread, so that its time is that
/// thread's.
pub struct OneServer {
    runtime: Runtime,
    env: TestEnv,
}

impl OneServer {
    /// Starts it.
    pub fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Inputs that wait for a revision give up by the clock of the plane.
        let env = runtime.block_on(TestEnv::builder().system_clock().start());
        Self { runtime, env }
    }

    /// Sends a request as an administrator, or as a user without rights, and returns the code.
    pub fn send(&self, request: Request<Vec<u8>>, has_rights: bool) -> u16 {
        let without_rights = User {
            name: "u".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        let client = self.env.server().in_process_client();
        let mut client = if has_rights { client } else { client.for_user(without_rights) };
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
    /// One for all inputs: what they send is not stored.
    pub static SERVER: OneServer = OneServer::start();
}
