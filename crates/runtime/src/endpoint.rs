//! The manager's HTTP endpoint: `/healthz`, `/readyz` (`?verbose`), `/metrics`, and `/reconciles`,
//! which returns the causes and outcomes of the last reconciles. The last two may demand a token
//! ([`AccessReviewer`]).

mod access_reviewer;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::health::Checks;
use crate::manager::ManagerState;
use crate::reconcile_history::Record;
use keel::Tasks;
use machinery::{Map, Value};

pub(crate) use access_reviewer::AccessReviewer;

/// The largest number of concurrent connections; others wait.
const MAX_CONNECTIONS: usize = 64;
/// The delay after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Serves requests until `tasks` are stopped.
pub(crate) async fn serve(listener: TcpListener, manager: Arc<ManagerState>, tasks: Tasks) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let shutdown = tasks.shutdown();
    tokio::pin!(shutdown);
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = &mut shutdown => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // The usual cause is too many open files: other connections must be closed first.
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let manager = Arc::clone(&manager);
        let stopped = tasks.shutdown();
        tasks.spawn("connection", async move {
            let service = service_fn(move |request| {
                let manager = Arc::clone(&manager);
                async move { Ok::<_, Infallible>(respond(&manager, &request).await) }
            });
            // hyper closes a connection without a request after half a minute.
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _ = served => {}
                () = stopped => {}
            }
            drop(permit);
        });
    }
}

async fn respond(manager: &ManagerState, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n".to_owned());
    }
    let is_verbose = request.uri().query().is_some_and(|query| query.contains("verbose"));
    let path = request.uri().path();
    if !matches!(path, "/healthz" | "/livez" | "/readyz")
        && let Some(reviewer) = &manager.access_reviewer
        && let Err(denial) = reviewer.review(request.headers(), path).await
    {
        return text(denial.code(), format!("{denial}\n"));
    }
    match path {
        "/healthz" | "/livez" => check_response(&manager.health, "healthz", is_verbose),
        "/readyz" => check_response(&manager.readiness, "readyz", is_verbose),
        "/metrics" => text(StatusCode::OK, manager.metrics()),
        "/reconciles" => reconciles(manager),
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

fn check_response(checks: &Checks, what: &str, is_verbose: bool) -> Response<Full<Bytes>> {
    let report = checks.run(what);
    match report.has_passed {
        true if is_verbose => text(StatusCode::OK, report.text),
        true => text(StatusCode::OK, "ok".to_owned()),
        false => text(StatusCode::INTERNAL_SERVER_ERROR, report.text),
    }
}

fn reconciles(manager: &ManagerState) -> Response<Full<Bytes>> {
    let mut all = Map::new();
    for control_loop in manager.loops() {
        let records = control_loop.history.records();
        let records = records.iter().map(Record::to_value).collect();
        all.insert(control_loop.name.clone(), Value::Array(records));
    }
    let mut response = text(StatusCode::OK, Value::Object(all).to_string());
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
