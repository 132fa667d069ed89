//! [`TokenFile`]: the bearer token of a mounted service account, which the kubelet replaces before
//! it expires; and [`Authorized`], a service that adds it to requests.
//!
//! The file is read periodically, and at the next request after the server has refused the token
//! with 401. If it cannot be read, or is empty, the last token is used: the file may be removed on
//! purpose, or written in two steps.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use tower_service::Service;

use keel::{Clock, Timestamp};

/// The period of reads. Tokens live for an hour and are replaced after 48 minutes.
const FRESH: Duration = Duration::from_mins(1);

/// See the [module documentation](self).
pub(crate) struct TokenFile {
    path: PathBuf,
    clock: Clock,
    last: Mutex<Last>,
}

struct Last {
    header: HeaderValue,
    /// `None` once the server has refused it.
    read_at: Option<Timestamp>,
}

impl TokenFile {
    /// Reads the token for the first time; it must exist.
    pub(crate) fn read(path: &str, clock: &Clock) -> io::Result<Arc<Self>> {
        let path = PathBuf::from(path);
        let last = Last { header: bearer(&path)?, read_at: Some(clock.now()) };
        Ok(Arc::new(Self { path, clock: clock.clone(), last: Mutex::new(last) }))
    }

    fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        // If the clock was set back, the file is read again, too.
        let is_fresh = |read_at| read_at <= now && now.since(read_at) < FRESH;
        if !last.read_at.is_some_and(is_fresh) {
            match bearer(&self.path) {
                Ok(header) => last.header = header,
                Err(error) => {
                    tracing::warn!(path = ?self.path, %error, "cannot read the token again");
                }
            }
            last.read_at = Some(now);
        }
        last.header.clone()
    }

    fn refused(&self, header: &HeaderValue) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.header == header {
            last.read_at = None;
        }
    }
}

fn bearer(path: &Path) -> io::Result<HeaderValue> {
    let token = std::fs::read_to_string(path)?;
    let token = token.trim();
    if token.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
    }
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    header.set_sensitive(true);
    Ok(header)
}

/// A service that adds the token of a file to its requests.
#[derive(Clone)]
pub(crate) struct Authorized<S> {
    inner: S,
    token: Arc<TokenFile>,
}

impl<S> Authorized<S> {
    pub(crate) fn new(inner: S, token: Arc<TokenFile>) -> Self {
        Self { inner, token }
    }
}

impl<S, A, B> Service<Request<A>> for Authorized<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        let header = self.token.header();
        request.headers_mut().insert(AUTHORIZATION, header.clone());
        let (answered, token) = (self.inner.call(request), Arc::clone(&self.token));
        Box::pin(async move {
            let response = answered.await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                token.refused(&header);
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_again_when_it_was_refused_or_is_old() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let write = |token: &str| std::fs::write(&path, token).unwrap();
        write("one\n");
        let token = TokenFile::read(path.to_str().unwrap(), &clock).unwrap();
        write("two");
        assert_eq!(token.header(), "Bearer one");
        token.refused(&HeaderValue::from_static("Bearer zero"));
        assert_eq!(token.header(), "Bearer one", "another token was refused");
        token.refused(&token.header());
        assert_eq!(token.header(), "Bearer two");
        write("three");
        clock.advance(FRESH);
        assert_eq!(token.header(), "Bearer three");
        write("\n");
        clock.advance(FRESH);
        assert_eq!(token.header(), "Bearer three", "nothing is no token");
        assert!(TokenFile::read(path.to_str().unwrap(), &clock).is_err());
        std::fs::remove_file(&path).unwrap();
        clock.advance(FRESH);
        assert_eq!(token.header(), "Bearer three", "the last one stays");
    }
}
