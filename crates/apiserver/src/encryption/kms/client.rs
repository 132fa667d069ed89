//! [`KmsClient`]: calls a plugin by gRPC over a Unix socket.
//!
//! A call is one HTTP/2 request: the message after a prefix of five bytes, and the status in trailers.
//! The connection is opened by the first call, and again after it was lost. A call waits for a plugin
//! that does not listen yet until its time-out, as kube-apiserver's calls do.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};
use crate::encryption::config_file::KmsConfig;
use crate::encryption::envelope_metrics::EnvelopeMetrics;
use keel::Tasks;

/// The limit on the size of a response; keys are much smaller.
const MAX_RESPONSE: usize = 1 << 20;

/// The time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);

/// See the [module documentation](self).
pub(super) struct KmsClient {
    /// The name of the provider, in metrics.
    provider: String,
    socket: PathBuf,
    timeout: Duration,
    tasks: Tasks,
    metrics: EnvelopeMetrics,
    /// Not locked across an await.
    connection: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl KmsClient {
    /// A client of the plugin at a socket. A name that begins with `@` is abstract.
    pub(super) fn new(config: &KmsConfig, tasks: &Tasks, metrics: &EnvelopeMetrics) -> Self {
        let socket = match config.socket.strip_prefix('@') {
            Some(name) => PathBuf::from(format!("\0{name}")),
            None => PathBuf::from(&config.socket),
        };
        Self {
            provider: config.name.clone(),
            socket,
            timeout: config.timeout,
            tasks: tasks.clone(),
            metrics: metrics.clone(),
            connection: Mutex::default(),
        }
    }

    /// The state of the plugin.
    pub(super) async fn status(&self) -> Result<StatusResponse, String> {
        self.call("Status", &StatusRequest {}).await
    }

    /// Encrypts `plaintext`. `uid` identifies the request.
    pub(super) async fn encrypt(
        &self,
        uid: String,
        plaintext: Vec<u8>,
    ) -> Result<EncryptResponse, String> {
        self.call("Encrypt", &EncryptRequest { plaintext, uid }).await
    }

    /// Decrypts what an earlier call has encrypted.
    pub(super) async fn decrypt(&self, request: DecryptRequest) -> Result<Vec<u8>, String> {
        let response: DecryptResponse = self.call("Decrypt", &request).await?;
        Ok(response.plaintext)
    }

    /// The time-outs of calls are those of the wire, and use tokio's timer.
    async fn call<R: Message + Default>(
        &self,
        method: &str,
        message: &impl Message,
    ) -> Result<R, String> {
        let began = Instant::now();
        let mut last_error = None;
        let call = self.call_without_timeout(method, message, &mut last_error);
        let result = match tokio::time::timeout(self.timeout, call).await {
            Ok(result) => result,
            Err(_) => Err(match last_error {
                Some(why) => rpc_error("Unavailable", &why),
                None => rpc_error("DeadlineExceeded", "context deadline exceeded"),
            }),
        };
        let code = result.as_ref().err().map_or("OK", |it| it.code);
        self.metrics.observe_call(&self.provider, method, code, began.elapsed());
        result.map_err(|it| it.to_string())
    }

    async fn call_without_timeout<R: Message + Default>(
        &self,
        method: &str,
        message: &impl Message,
        last_error: &mut Option<String>,
    ) -> Result<R, RpcError> {
        let body = frame(message);
        loop {
            let mut sender = match self.connect().await {
                Ok(sender) => sender,
                Err(why) => {
                    *last_error = Some(format!("connection error: {why}"));
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            let request =
                Request::post(format!("http://localhost/v2.KeyManagementService/{method}"))
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .body(Full::new(body.clone()))
                    .map_err(|error| rpc_error("Internal", &error.to_string()))?;
            match sender.send_request(request).await {
                Ok(response) => return read(response).await,
                Err(error) => {
                    self.lock().take();
                    *last_error = Some(error.to_string());
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// The connection, which is opened if there is none.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let open = self.lock().as_ref().filter(|it| !it.is_closed()).cloned();
        if let Some(sender) = open {
            return Ok(sender);
        }
        let stream = UnixStream::connect(&self.socket).await.map_err(|it| it.to_string())?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|it| it.to_string())?;
        let stop = self.tasks.shutdown();
        self.tasks.spawn("kms-connection", async move {
            tokio::select! {
                // The next call reports the error of a connection.
                _ = connection => {}
                () = stop => {}
            }
        });
        *self.lock() = Some(sender.clone());
        Ok(sender)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<SendRequest<Full<Bytes>>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message after its prefix: not compressed, and its length.
fn frame(message: &impl Message) -> Bytes {
    let len = message.encoded_len();
    let mut body = BytesMut::with_capacity(5 + len);
    body.put_u8(0);
    body.put_u32(u32::try_from(len).expect("a message of the server is small"));
    message.encode(&mut body).expect("the buffer grows");
    body.freeze()
}

/// The message of a response, or its error.
async fn read<R: Message + Default>(response: Response<Incoming>) -> Result<R, RpcError> {
    let (parts, body) = response.into_parts();
    if parts.status != 200 {
        let why = format!("unexpected HTTP status code received from server: {}", parts.status);
        return Err(rpc_error("Unknown", &why));
    }
    check_status(&parts.headers)?;
    let collected = Limited::new(body, MAX_RESPONSE).collect().await;
    let collected = collected.map_err(|error| rpc_error("Unavailable", &error.to_string()))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    check_status(&trailers)?;
    let body = collected.to_bytes();
    // A compressed message was not asked for. A second message would follow the first one.
    match body.split_first_chunk::<5>() {
        Some(([0, len @ ..], message)) if u32::from_be_bytes(*len) as usize == message.len() => {
            R::decode(message).map_err(|error| rpc_error("Internal", &error.to_string()))
        }
        _ => Err(rpc_error("Internal", "the response has no message")),
    }
}

/// The error in the headers or trailers of a response.
fn check_status(headers: &HeaderMap) -> Result<(), RpcError> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let Some(code) = text("grpc-status").filter(|it| *it != "0") else { return Ok(()) };
    let message = text("grpc-message").unwrap_or_default();
    let message = percent_encoding::percent_decode_str(message).decode_utf8_lossy();
    let name = code.parse().ok().and_then(|it: usize| CODES.get(it)).unwrap_or(&"Unknown");
    Err(rpc_error(name, &message))
}

/// The names of gRPC's status codes.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The error of a call, in the form of Go's library.
#[derive(Debug, thiserror::Error)]
#[error("rpc error: code = {code} desc = {why}")]
struct RpcError {
    code: &'static str,
    why: String,
}

fn rpc_error(code: &'static str, why: &str) -> RpcError {
    RpcError { code, why: why.to_owned() }
}
