//! [`Faulty`]: a door behind which a test decides what goes wrong.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tower_service::Service;

use apiserver::InProcessClient;
use runtime::kube_client::client::Body;

type Answer = UnsyncBoxBody<Bytes, BoxError>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is served.
    Served,
    /// It is answered like this, with an advice to come again after a second if that is usual.
    Refused(u16),
    /// It is served, and the connection breaks before the answer.
    AnswerLost,
    /// It is served, and the connection breaks within the answer.
    AnswerCut,
    /// The request is not answered, and served when it is [released](Faulty::let_go).
    Held,
    /// What was held is served, and then this.
    HeldBehind,
    /// The request does not arrive, and there is no answer.
    Unanswered,
}

type Judge = Box<dyn FnMut(&Method, &str) -> Fate + Send>;

/// See the [module documentation](self). Clones share their faults.
#[derive(Clone)]
pub(crate) struct Faulty {
    door: InProcessClient,
    judge: Arc<Mutex<Judge>>,
    held: Arc<Mutex<Vec<Request<Body>>>>,
}

impl Faulty {
    /// Without faults.
    pub(crate) fn new(door: InProcessClient) -> Self {
        let judge: Judge = Box::new(|_, _| Fate::Served);
        Self { door, judge: Arc::new(Mutex::new(judge)), held: Arc::default() }
    }

    /// Serves what was held, and says with which codes it was answered.
    pub(crate) async fn let_go(&self) -> Vec<u16> {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        let (mut door, mut codes) = (self.door.clone(), Vec::new());
        for request in held {
            codes.push(door.call(request).await.unwrap().status().as_u16());
        }
        codes
    }

    /// From now on `judge` decides, by the method and by path and query.
    pub(crate) fn decide(&self, judge: impl FnMut(&Method, &str) -> Fate + Send + 'static) {
        *self.judge.lock().unwrap() = Box::new(judge);
    }
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let target = request.uri().path_and_query().unwrap().as_str().to_owned();
        let fate = self.judge.lock().unwrap()(request.method(), &target);
        let answered = match fate {
            Fate::Refused(_) | Fate::Unanswered => None,
            Fate::Served | Fate::AnswerLost | Fate::AnswerCut | Fate::HeldBehind => {
                Some(self.door.call(request))
            }
            Fate::Held => {
                self.held.lock().unwrap().push(request);
                None
            }
        };
        let faulty = self.clone();
        Box::pin(async move {
            if fate == Fate::HeldBehind {
                faulty.let_go().await;
            }
            match (answered, fate) {
                (Some(answered), Fate::Served | Fate::HeldBehind) => {
                    Ok(answered.await?.map(|body| body.map_err(Into::into).boxed_unsync()))
                }
                (Some(answered), Fate::AnswerCut) => {
                    let cut: Result<Frame<Bytes>, BoxError> = Err("the connection broke".into());
                    let body = StreamBody::new(stream::iter([cut])).boxed_unsync();
                    Ok(answered.await?.map(|_| body))
                }
                (Some(answered), _) => {
                    drop(answered.await?);
                    Err("the connection broke".into())
                }
                (None, Fate::Refused(code)) => {
                    let mut response =
                        Response::new(Full::from("no").map_err(Into::into).boxed_unsync());
                    *response.status_mut() = StatusCode::from_u16(code)?;
                    if code == 429 {
                        response.headers_mut().insert("retry-after", "1".parse()?);
                    }
                    Ok(response)
                }
                (None, Fate::Held) => Err("nobody answered".into()),
                (None, _) => std::future::pending().await,
            }
        })
    }
}
