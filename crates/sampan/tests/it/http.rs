//! A small HTTPS client: one blocking connection, kept open between requests.

use machinery::codec::yaml;
use machinery::{Value, json};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

/// See the [module documentation](self).
pub(crate) struct Client {
    address: String,
    config: Arc<ClientConfig>,
    connection: Option<Connection>,
}

impl Client {
    /// With the credentials of a kubeconfig that has one user.
    pub(crate) fn new(url: &str, kubeconfig: &Path) -> Self {
        let text = fs::read(kubeconfig).unwrap();
        let value = yaml::decode(&text).unwrap().value;
        let data = |pointer: &str| {
            use base64::Engine;
            let text = value.pointer(pointer).and_then(Value::as_str).unwrap();
            base64::prelude::BASE64_STANDARD.decode(text).unwrap()
        };
        let authority = data("/clusters/0/cluster/certificate-authority-data");
        let certificate = data("/users/0/user/client-certificate-data");
        let key = data("/users/0/user/client-key-data");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&certificate).unwrap()],
                PrivateKeyDer::from_pem_slice(&key).unwrap(),
            )
            .unwrap();
        let address = url.strip_prefix("https://").unwrap().to_owned();
        Self { address, config: Arc::new(config), connection: None }
    }

    fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        Ok(BufReader::new(StreamOwned::new(tls, stream)))
    }

    /// Sends a request and reads the whole answer.
    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        write_request(&mut connection, method, path, body)?;
        let (code, length) = read_head(&mut connection)?;
        let mut text = Vec::new();
        if let Some(length) = length {
            text.resize(length, 0);
            connection.read_exact(&mut text)?;
        } else {
            while let Some(chunk) = read_chunk(&mut connection)? {
                text.extend(chunk);
            }
        }
        self.connection = Some(connection);
        let value =
            serde_json::from_slice(&text).unwrap_or_else(|_| json!(String::from_utf8_lossy(&text)));
        Ok((code, value))
    }

    /// Opens a stream of events; it ends with the server.
    pub(crate) fn watch(&self, path: &str) -> io::Result<Watch> {
        let mut connection = self.connect()?;
        write_request(&mut connection, "GET", path, None)?;
        read_head(&mut connection)?;
        Ok(Watch { connection, pending: Vec::new() })
    }
}

/// The events of a watch.
pub(crate) struct Watch {
    connection: Connection,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event; an error when the stream breaks off, None when it ends.
    pub(crate) fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
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
    body: Option<&Value>,
) -> io::Result<()> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let stream = connection.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

/// The code, and the length of the body unless it comes in chunks.
fn read_head(connection: &mut Connection) -> io::Result<(u16, Option<usize>)> {
    let broken = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(broken)?;
    let mut length = None;
    loop {
        line.clear();
        connection.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok();
            }
            Some(_) => {}
            None if line == "\r\n" => return Ok((code, length)),
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
