//! [`NeutronServer`]: a real Neutron on loopback, without Keystone, which ends with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use network_operator::backend::neutron::{Neutron, NeutronOptions};

/// The Python of a virtual environment with Neutron, which `cargo xtask test` makes.
const VARIABLE: &str = "SAMPAN_TEST_NEUTRON_PYTHON";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/neutron/serve.py");

/// See the [module documentation](self).
pub(crate) struct NeutronServer {
    python: PathBuf,
    process: Child,
    port: String,
    client: Client<HttpConnector, Full<Bytes>>,
    directory: tempfile::TempDir,
}

impl NeutronServer {
    /// Starts Neutron; `None`, with a loud message, if there is none.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    /// The same, with pages of at most two objects.
    pub(crate) fn start_with_small_pages(test: &str) -> Option<Self> {
        Self::start_with(test, &[("NEUTRON_TEST_PAGE", "2")])
    }

    fn start_with(test: &str, variables: &[(&str, &str)]) -> Option<Self> {
        let Some(python) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            crate::skipped::skip(test, &format!("{VARIABLE}, which `cargo xtask test` sets"));
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let (process, port) = serve(&python, directory.path(), variables);
        let client = Client::builder(TokioExecutor::new()).build_http();
        Some(Self { python, process, port, client, directory })
    }

    /// Ends the process; its database stays.
    pub(crate) fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again after a [`stop`](Self::stop), on the same port and database.
    pub(crate) fn start_again(&mut self) {
        let variables = [("NEUTRON_TEST_PORT", self.port.as_str())];
        (self.process, _) = serve(&self.python, self.directory.path(), &variables);
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A backend with this server.
    pub(crate) fn backend(&self) -> Neutron {
        let neutron_url = Some(self.url().parse().unwrap());
        Neutron::new(&NeutronOptions { neutron_url, ..NeutronOptions::default() }).unwrap()
    }

    /// Sends a request of somebody else, which must be accepted.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let uri = format!("{}/v2.0/{path}", self.url());
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(uri).body(Full::from(body)).unwrap();
        let response = self.client.request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{path}: {status} {body:?}");
        serde_json::from_slice(&body).unwrap_or_default()
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let mut list =
            self.send(Method::GET, &format!("{kind}?sort_key=id&sort_dir=asc"), &Value::Null).await;
        serde_json::from_value(list[kind].take()).unwrap()
    }

    /// Creates a network of somebody else, with a subnet.
    pub(crate) async fn create_foreign(&self, name: &str, description: &str, cidr: &str) {
        let network = json!({"network": {"name": name, "description": description}});
        let network = self.send(Method::POST, "networks", &network).await;
        let subnet = json!({"subnet": {
            "network_id": network["network"]["id"], "cidr": cidr, "ip_version": 4,
            "name": name, "description": description,
        }});
        self.send(Method::POST, "subnets", &subnet).await;
    }
}

impl Drop for NeutronServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts the program, and returns it with its port when it serves requests.
fn serve(python: &Path, directory: &Path, variables: &[(&str, &str)]) -> (Child, String) {
    let mut process = Command::new(python)
        .arg(PROGRAM)
        .env("NEUTRON_TEST_DIR", directory)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port = lines.find_map(|line| Some(line.strip_prefix("listening on ")?.to_owned()));
    (process, port.expect("Neutron listens"))
}
