//! [`KmsPlugin`]: a KMS v2 plugin on a Unix socket, in the process of the test.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;

use keel::Tasks;

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Plaintext {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

/// What the plugin does, and what it was asked.
pub(super) struct PluginState {
    pub(super) key_id: String,
    pub(super) healthz: String,
    /// The error of `Decrypt`.
    pub(super) decrypt_error: Option<&'static str>,
    /// The calls by method.
    pub(super) calls: BTreeMap<String, usize>,
    /// The plaintexts of `Encrypt`, which must not be on the disk.
    pub(super) seeds: Vec<Vec<u8>>,
}

/// See the [module documentation](self). It stops when it is dropped.
pub(super) struct KmsPlugin {
    pub(super) state: Arc<Mutex<PluginState>>,
    tasks: Tasks,
}

impl KmsPlugin {
    /// Starts a plugin that encrypts with the key `key_id`.
    pub(super) fn start(socket: &Path, key_id: &str) -> Self {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Mutex::new(PluginState {
            key_id: key_id.to_owned(),
            healthz: "ok".to_owned(),
            decrypt_error: None,
            calls: BTreeMap::new(),
            seeds: Vec::new(),
        }));
        let tasks = Tasks::new();
        let (served, connections) = (Arc::clone(&state), tasks.clone());
        let stop = tasks.shutdown();
        let accepting = async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&served);
                let service = service_fn(move |request| respond(Arc::clone(&state), request));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                let stop = connections.shutdown();
                connections.spawn("connection", async move {
                    tokio::select! {
                        _ = connection => {}
                        () = stop => {}
                    }
                });
            }
        };
        tasks.spawn("plugin", async move {
            tokio::select! {
                () = accepting => {}
                () = stop => {}
            }
        });
        Self { state, tasks }
    }

    /// The number of calls of a method.
    pub(super) fn calls(&self, method: &str) -> usize {
        self.state.lock().unwrap().calls.get(method).copied().unwrap_or(0)
    }

    /// Stops the plugin, whose connections are closed.
    pub(super) async fn stop(self, socket: &Path) {
        self.tasks.stop(std::time::Duration::from_secs(10)).await.unwrap();
        std::fs::remove_file(socket).unwrap();
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.tasks.ask_to_stop();
    }
}

type Body = http_body_util::combinators::WithTrailers<
    Full<Bytes>,
    std::future::Ready<Option<Result<HeaderMap, Infallible>>>,
>;

async fn respond(
    state: Arc<Mutex<PluginState>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let method = request.uri().path().strip_prefix("/v2.KeyManagementService/").unwrap().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answer = answer(&mut state.lock().unwrap(), &method, &body[5..]);
    let mut trailers = HeaderMap::new();
    let body = match answer {
        Ok(message) => {
            trailers.insert("grpc-status", "0".parse().unwrap());
            let len = u32::try_from(message.len()).unwrap().to_be_bytes();
            [&[0][..], &len, &message].concat()
        }
        Err(why) => {
            trailers.insert("grpc-status", "9".parse().unwrap());
            trailers.insert("grpc-message", why.parse().unwrap());
            Vec::new()
        }
    };
    let body = Full::new(Bytes::from(body)).with_trailers(std::future::ready(Some(Ok(trailers))));
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

/// The response to a call. The cipher is XOR with a byte of the name of the key.
fn answer(state: &mut PluginState, method: &str, message: &[u8]) -> Result<Vec<u8>, &'static str> {
    *state.calls.entry(method.to_owned()).or_default() += 1;
    let xor = |data: &[u8], key_id: &str| -> Vec<u8> {
        let byte = *key_id.as_bytes().last().unwrap();
        data.iter().map(|it| it ^ byte).collect()
    };
    Ok(match method {
        "Status" => StatusResponse {
            version: "v2".to_owned(),
            healthz: state.healthz.clone(),
            key_id: state.key_id.clone(),
        }
        .encode_to_vec(),
        "Encrypt" => {
            let plaintext = Plaintext::decode(message).unwrap().plaintext;
            let ciphertext = xor(&plaintext, &state.key_id);
            state.seeds.push(plaintext);
            let annotations = [("local.example.com".to_owned(), b"kek".to_vec())].into();
            EncryptResponse { ciphertext, key_id: state.key_id.clone(), annotations }
                .encode_to_vec()
        }
        "Decrypt" => {
            if let Some(why) = state.decrypt_error {
                return Err(why);
            }
            let request = DecryptRequest::decode(message).unwrap();
            assert_eq!(request.annotations["local.example.com"], b"kek");
            Plaintext { plaintext: xor(&request.ciphertext, &request.key_id) }.encode_to_vec()
        }
        other => panic!("{other}"),
    })
}
