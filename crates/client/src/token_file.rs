//! [`FileTokenSource`]: reads the bearer token of a mounted service account, which the kubelet replaces
//! before it expires; and [`Authorized`], a service that adds it to requests.
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

/// The interval at which the file is read. Tokens live for an hour and are replaced after 48 minutes.
const READ_INTERVAL: Duration = Duration::from_mins(1);

/// See the [module documentation](self).
pub(crate) struct FileTokenSource {
    path: PathBuf,
    clock: Clock,
    cached: Mutex<CachedToken>,
}

struct CachedToken {
    header: HeaderValue,
    /// `None` once the server has refused it.
    read_at: Option<Timestamp>,
}

impl FileTokenSource {
    /// Reads the token for the first time; it must exist.
    pub(crate) fn read(path: &str, clock: &Clock) -> io::Result<Arc<Self>> {
        let path = PathBuf::from(path);
        let cached = CachedToken { header: bearer(&path)?, read_at: Some(clock.now()) };
        Ok(Arc::new(Self { path, clock: clock.clone(), cached: Mutex::new(cached) }))
    }

    /// The `Authorization` header of the next request.
    fn header(&self) -> HeaderValue {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        // The file is also read again if the clock was set back.
        let is_fresh = |read_at| read_at <= now && now.since(read_at) < READ_INTERVAL;
        if !cached.read_at.is_some_and(is_fresh) {
            match bearer(&self.path) {
                Ok(header) => cached.header = header,
                Err(error) => {
                    tracing::warn!(path = ?self.path, %error, "cannot read the token again");
                }
            }
            cached.read_at = Some(now);
        }
        cached.header.clone()
    }

    /// Causes a read of the file at the next request, if the server has refused the current token.
    fn mark_refused(&self, header: &HeaderValue) {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.header == header {
            cached.read_at = None;
        }
    }
}

/// Reads the file as an `Authorization` header.
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
    token: Arc<FileTokenSource>,
}

impl<S> Authorized<S> {
    pub(crate) fn new(inner: S, token: Arc<FileTokenSource>) -> Self {
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
        let (response, token) = (self.inner.call(request), Arc::clone(&self.token));
        Box::pin(async move {
            let response = response.await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                token.mark_refused(&header);
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_again_after_a_refusal_or_a_minute() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let write = |token: &str| std::fs::write(&path, token).unwrap();
        write("one\n");
        let token = FileTokenSource::read(path.to_str().unwrap(), &clock).unwrap();
        write("two");
        assert_eq!(token.header(), "Bearer one");
        token.mark_refused(&HeaderValue::from_static("Bearer zero"));
        assert_eq!(token.header(), "Bearer one", "another token was refused");
        token.mark_refused(&token.header());
        assert_eq!(token.header(), "Bearer two");
        write("three");
        clock.advance(READ_INTERVAL);
        assert_eq!(token.header(), "Bearer three");
        write("\n");
        clock.advance(READ_INTERVAL);
        assert_eq!(token.header(), "Bearer three", "an empty file is ignored");
        assert!(FileTokenSource::read(path.to_str().unwrap(), &clock).is_err());
        std::fs::remove_file(&path).unwrap();
        clock.advance(READ_INTERVAL);
        assert_eq!(token.header(), "Bearer three", "the last token is used if the file is missing");
    }
}
