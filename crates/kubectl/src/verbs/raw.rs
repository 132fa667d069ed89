//! `--raw`: a request for any path of the server.

use crate::error::Error;
use crate::io::Io;
use crate::session::Session;

/// Prints the response of a GET as it is.
pub(crate) async fn get(session: &Session, io: &mut Io, path: &str) -> Result<(), Error> {
    if !path.starts_with('/') {
        return Err(Error::message(format!(
            "--raw must be a valid URL path: parse {path:?}: invalid URI for request"
        )));
    }
    let bytes = session.get_bytes(path, "*/*").await?;
    io.print_bytes(&bytes)
}
