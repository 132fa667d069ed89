//! A small HTTPS client with one blocking connection, which stays open between requests.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned};

use machinery::Value;
use machinery::codec::{json, yaml};

/// TLS over TCP.
pub(crate) type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// The certificate authority of the server and the client certificate, in PEM.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub authority: Vec<u8>,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

impl Credentials {
    /// The credentials in a kubeconfig with one user.
    pub(crate) fn read(kubeconfig: &Path) -> Self {
        let text = fs::read(kubeconfig).unwrap();
        let value = yaml::decode(&text).unwrap().value;
        let data = |pointer: &str| {
            use base64::Engine;
            let text = value.pointer(pointer).and_then(Value::as_str).unwrap();
            base64::prelude::BASE64_STANDARD.decode(text).unwrap()
        };
        Self {
            authority: data("/clusters/0/cluster/certificate-authority-data"),
            certificate: data("/users/0/user/client-certificate-data"),
            key: data("/users/0/user/client-key-data"),
        }
    }

    fn trusting(&self) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
    }

    /// TLS with the client certificate.
    pub(crate) fn tls(&self) -> ClientConfig {
        let certificate = CertificateDer::from_pem_slice(&self.certificate).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&self.key).unwrap();
        self.trusting().with_client_auth_cert(vec![certificate], key).unwrap()
    }

    /// TLS without a client certificate.
    pub(crate) fn anonymous_tls(&self) -> ClientConfig {
        self.trusting().with_no_client_auth()
    }
}

/// A response.
pub(crate) struct Response {
    pub code: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; a string if it is not JSON.
    pub body: Value,
}

impl Response {
    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// See the [module documentation](self).
pub(crate) struct Client {
    address: String,
    config: Arc<ClientConfig>,
    connection: Option<Connection>,
}

impl Client {
    /// A client with the credentials in a kubeconfig with one user.
    pub(crate) fn new(url: &str, kubeconfig: &Path) -> Self {
        Self::with_tls(url, Credentials::read(kubeconfig).tls())
    }

    /// A client with a TLS configuration.
    pub(crate) fn with_tls(url: &str, config: ClientConfig) -> Self {
        let address = url.strip_prefix("https://").unwrap().to_owned();
        Self { address, config: Arc::new(config), connection: None }
    }

    /// Opens a connection without sending a request.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        Ok(BufReader::new(StreamOwned::new(tls, stream)))
    }

    /// Sends a request and reads the whole response.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let headers = [("content-type", content_type(method))];
        let response = self.exchange(method, path, &headers, body.as_bytes())?;
        Ok((response.code, response.body))
    }

    /// Sends a request with any headers and bytes.
    pub(crate) fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        // A server may refuse a request before it was sent completely.
        let written = write_request(&mut connection, method, path, headers, body);
        let response = read_response(&mut connection, method)
            .map_err(|error| written.err().unwrap_or(error))?;
        if response.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Opens a watch.
    pub(crate) fn watch(&self, path: &str) -> io::Result<Watch> {
        let mut connection = self.connect()?;
        write_request(&mut connection, "GET", path, &[], &[])?;
        read_head(&mut connection)?;
        Ok(Watch { connection, pending: Vec::new() })
    }
}

fn content_type(method: &str) -> &'static str {
    match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    }
}

/// The events of a watch.
pub(crate) struct Watch {
    connection: Connection,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event; an error if the connection is lost, none at the end of the watch.
    pub(crate) fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Some(json::decode(&line).map_err(io::Error::other)?.value));
            }
            match read_chunk(&mut self.connection)? {
                Some(chunk) => self.pending.extend(chunk),
                None => return Ok(None),
            }
        }
    }
}

fn write_request(
    connection: &mut Connection,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    let stream = connection.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    stream.flush()
}

/// Whether the server has closed the connection, which it may do while a request that it refuses is
/// still being sent: the response is then lost.
pub(crate) fn is_closed_by_server(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Reads the whole response to a request.
pub(crate) fn read_response(connection: &mut Connection, method: &str) -> io::Result<Response> {
    let (code, headers) = read_head(connection)?;
    let mut response = Response { code, headers, body: Value::Null };
    let text = match response.header("content-length").and_then(|it| it.parse().ok()) {
        _ if method == "HEAD" => Vec::new(),
        Some(length) => {
            let mut text = vec![0; length];
            connection.read_exact(&mut text)?;
            text
        }
        None => {
            let mut text = Vec::new();
            while let Some(chunk) = read_chunk(connection)? {
                text.extend(chunk);
            }
            text
        }
    };
    response.body = match json::decode(&text) {
        Ok(decoded) => decoded.value,
        Err(_) => String::from_utf8_lossy(&text).into(),
    };
    Ok(response)
}

/// Reads the code and the headers of a response.
fn read_head(connection: &mut Connection) -> io::Result<(u16, Vec<(String, String)>)> {
    let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(broken)?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        connection.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None if line == "\r\n" => return Ok((code, headers)),
            None => return Err(broken()),
        }
    }
}

fn read_chunk(connection: &mut Connection) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim_end(), 16)
        .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    let mut chunk = vec![0; length + 2];
    connection.read_exact(&mut chunk)?;
    chunk.truncate(length);
    Ok((length > 0).then_some(chunk))
}
