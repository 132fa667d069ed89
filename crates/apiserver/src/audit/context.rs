//! [`AuditContext`]: the audit events of one request.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{AUTHORIZATION, HeaderValue};
use http::request::Parts as Head;
use http::{HeaderMap, Response};
use tokio::time::Instant;

use super::Auditor;
use super::event::{self, Event, ResponseStatus};
use super::objects;
use super::policy::{AuditAttributes, Level, RequestAuditConfig, Stage};
use crate::auth::authentication::User;
use crate::auth::authorization::{Attributes, Decision};
use crate::http::body::Body;
use crate::http::{headers, negotiation};
use crate::request::RequestInfo;
use keel::Timestamp;
use machinery::{Object, Reason, Status};

/// See the [module documentation](self). It is created for each request if the plane is audited, and
/// has no level until the request is authenticated.
pub(crate) struct AuditContext {
    auditor: Arc<Auditor>,
    id: String,
    received: Timestamp,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// None before the policy is evaluated.
    config: Option<RequestAuditConfig>,
    event: Event,
    /// The stage whose event is not stored yet: that a read was received can be stored together with
    /// the next event.
    deferred: Option<Stage>,
    /// Whether the only event is that of the failed authentication, or of an earlier refusal.
    is_unauthenticated: bool,
    /// Whether the response, which is a failure, is not recorded.
    has_final_status: bool,
    /// Whether the last event is recorded, or will be at the end of a stream.
    is_finished: bool,
}

/// The annotation with the decision of the authorizers.
const DECISION: Cow<'static, str> = Cow::Borrowed("authorization.k8s.io/decision");

/// The annotation with the reason of the decision.
const REASON: Cow<'static, str> = Cow::Borrowed("authorization.k8s.io/reason");

/// The annotation of requests for deprecated versions.
const DEPRECATED: Cow<'static, str> = Cow::Borrowed("k8s.io/deprecated");

/// The annotation with the release that does not have the version any more.
const REMOVED_RELEASE: Cow<'static, str> = Cow::Borrowed("k8s.io/removed-release");

/// The event could not be stored, and the backend demands that the request fails.
#[derive(Debug)]
pub(crate) struct NotStored;

/// The sender of a request.
pub(crate) struct Client<'a> {
    /// The head of the request.
    pub head: &'a Head,
    /// The address of the connection; None within the process.
    pub address: Option<IpAddr>,
    /// Whether the client presented a certificate.
    pub has_certificate: bool,
}

impl AuditContext {
    /// The context of a request that was just received.
    pub(crate) fn new(auditor: &Arc<Auditor>, id: &HeaderValue) -> Arc<Self> {
        Arc::new(Self {
            auditor: Arc::clone(auditor),
            id: String::from_utf8_lossy(id.as_bytes()).into_owned(),
            received: auditor.clock.now(),
            state: Mutex::default(),
        })
    }

    /// Evaluates the policy for an authenticated request, and records that it was received.
    pub(crate) async fn begin(
        &self,
        user: &User,
        info: &RequestInfo,
        client: &Client<'_>,
    ) -> Result<(), NotStored> {
        self.evaluate(user, info, client, true);
        if info.verb.is_read_only() && self.auditor.can_defer() {
            self.lock().deferred = Some(Stage::RequestReceived);
            return Ok(());
        }
        // The deadline of the request ends this as well.
        if self.record(Stage::RequestReceived, None).await {
            return Ok(());
        }
        self.auditor.metrics.rejected.inc();
        // Upstream: no other event follows.
        self.lock().is_finished = true;
        Err(NotStored)
    }

    /// Evaluates the policy for a request whose authentication failed.
    pub(crate) fn begin_unauthenticated(&self, info: &RequestInfo, client: &Client<'_>) {
        self.begin_refused(info, client);
        let headers = &client.head.headers;
        // Upstream: an error in a media type that the client does not accept is not recorded.
        if !negotiation::accepts_errors(headers) {
            let mut state = self.lock();
            let message = attempted_methods(headers, client.has_certificate);
            state.event.response_status = Some(event::status_of_unauthenticated(&message));
            state.has_final_status = true;
        }
    }

    /// Evaluates the policy for a request that is refused before its user is known.
    pub(crate) fn begin_refused(&self, info: &RequestInfo, client: &Client<'_>) {
        self.evaluate(&User::default(), info, client, false);
        self.lock().is_unauthenticated = true;
    }

    fn evaluate(&self, user: &User, info: &RequestInfo, client: &Client<'_>, known: bool) {
        let attributes = Attributes::new(user, info);
        let request = AuditAttributes { attributes, is_authenticated: known };
        let config = self.auditor.policy.evaluate(&request);
        self.auditor.metrics.count_level(config.level);
        let mut state = self.lock();
        state.config = Some(config);
        if config.level > Level::None {
            state.event = Event::new(&attributes, client.head, client.address);
        }
    }

    /// The level of the request; [`Level::None`] before the policy is evaluated.
    pub(crate) fn level(&self) -> Level {
        self.lock().config.map_or(Level::None, |it| it.level)
    }

    /// Records the impersonated user.
    pub(crate) fn set_impersonated(&self, user: &User, constraint: Option<&str>) {
        self.lock().event.set_impersonated(user, constraint);
    }

    /// Records a decision of the authorizers. Upstream: endpoints/filters `WithAuthorization`.
    pub(crate) fn set_decision(&self, decision: &Decision) {
        if decision.is_allowed() {
            self.add_annotation(DECISION, "allow".into());
        } else if decision.evaluation_error().is_some() {
            return self.add_annotation(REASON, "internal error".into());
        } else {
            self.add_annotation(DECISION, "forbid".into());
        }
        self.add_annotation(REASON, decision.reason().to_owned().into());
    }

    /// Adds an annotation. The first value of a key counts.
    pub(crate) fn annotate(&self, key: &str, value: &str) {
        self.add_annotation(key.to_owned().into(), value.to_owned().into());
    }

    /// Records that the request is for a deprecated version of a resource, which releases from
    /// `removed_release` on do not have. Upstream: endpoints/metrics `MonitorRequest`.
    pub(crate) fn annotate_deprecated(&self, removed_release: &str) {
        self.add_annotation(DEPRECATED, "true".into());
        if !removed_release.is_empty() {
            self.add_annotation(REMOVED_RELEASE, removed_release.to_owned().into());
        }
    }

    /// Adds several annotations.
    pub(crate) fn annotate_all(&self, annotations: &[(&'static str, String)]) {
        for (key, value) in annotations {
            self.add_annotation(Cow::Borrowed(key), value.clone().into());
        }
    }

    fn add_annotation(&self, key: Cow<'static, str>, value: Cow<'static, str>) {
        let rejected = self.lock().event.annotations.add(key, value);
        if let Err(key) = rejected {
            tracing::warn!(%key, audit_id = self.id, "an audit annotation was set twice");
        }
    }

    /// Records the decoded object of a request: its name at every level, and its JSON, which `encode`
    /// writes, if the level says so.
    pub(crate) fn set_request_object(
        &self,
        request: &Object,
        encode: impl FnOnce(Object) -> Vec<u8>,
    ) {
        let mut state = self.lock();
        let Some(config) = state.config.filter(|it| it.level > Level::None) else { return };
        if let Some(object) = &mut state.event.object_ref {
            for (value, text) in [
                (request.namespace(), &mut object.namespace),
                (request.name(), &mut object.name),
                (request.uid(), &mut object.uid),
                (request.resource_version(), &mut object.resource_version),
            ] {
                if text.is_empty() {
                    value.clone_into(text);
                }
            }
        }
        if config.level >= Level::Request {
            let mut object = request.clone();
            if config.omit_managed_fields {
                object.remove_meta("managedFields");
            }
            state.event.request_object = Some(encode(object));
        }
    }

    /// Records the patch of a request, if the level says so.
    pub(crate) fn set_patch(&self, bytes: &[u8]) {
        if self.level() >= Level::Request {
            let patch = objects::of_patch(bytes);
            self.lock().event.request_object = patch;
        }
    }

    /// Records a failure as the result of the request.
    pub(crate) fn set_failure(&self, status: &Status) {
        let mut state = self.lock();
        if !state.has_final_status {
            state.event.response_status = Some(event::status_of_failure(status).into());
        }
    }

    /// Records the response. If it is a stream, its end is recorded when the stream is dropped.
    ///
    /// The response waits until `deadline` at most. Upstream: the timeout filter is around the audit
    /// filter, and closes the connection at the deadline; here the client gets the response.
    pub(crate) async fn finish(
        self: &Arc<Self>,
        mut response: Response<Body>,
        is_long_running: bool,
        deadline: Instant,
    ) -> Response<Body> {
        let Some(config) = self.lock().config.filter(|it| it.level > Level::None) else {
            return response;
        };
        let is_stream = matches!(response.body(), Body::Stream(_));
        let is_unauthenticated = {
            let mut state = self.lock();
            if state.is_finished {
                return response;
            }
            state.is_finished = true;
            let code = response.status().as_u16();
            let status = state.event.response_status.take();
            let status = status.or_else(|| objects::status_of(&response).map(Into::into));
            state.event.response_status = Some(status.unwrap_or(ResponseStatus::Code(code)));
            let is_resource = state.event.object_ref.is_some();
            if config.level == Level::RequestResponse
                && is_resource
                && !state.has_final_status
                && let Some(bytes) = objects::bytes_of(&mut response)
            {
                let omit = config.omit_managed_fields;
                state.event.response_object = objects::of_response(&response, &bytes, omit);
            }
            state.is_unauthenticated
        };
        // Exists before anything waits, since the client may leave at any time.
        let end = (!is_unauthenticated).then(|| EndOfResponse(Some(Arc::clone(self))));
        if is_unauthenticated || is_long_running {
            self.record(Stage::ResponseStarted, Some(deadline)).await;
        }
        match end {
            None => response,
            Some(end) if is_stream => {
                self.record_deferred();
                response.map(|body| body.with_guard(end))
            }
            Some(end) => {
                end.record(deadline).await;
                response
            }
        }
    }

    /// Records a panic as the result of the request. The response waits until `deadline` at most.
    pub(crate) async fn finish_panic(&self, message: &str, deadline: Instant) {
        if self.level() == Level::None {
            return;
        }
        let message = format!("APIServer panic'd: {message}");
        let status = Status::new(500, Reason::InternalError, message);
        {
            let mut state = self.lock();
            state.event.response_status = Some(event::status_of_failure(&status).into());
            state.is_finished = true;
        }
        self.record(Stage::Panic, Some(deadline)).await;
    }

    /// Records that the request was received, if that is deferred. Called when the request waits for
    /// something, since it may wait for long.
    pub(crate) fn record_deferred(&self) {
        let events = self.encode(None);
        self.store_detached(events);
    }

    /// Records the event of a stage. False if it could not be stored and the request should fail.
    async fn record(&self, stage: Stage, deadline: Option<Instant>) -> bool {
        let events = self.encode(Some(stage));
        events.is_empty() || self.auditor.process(&events.into(), deadline).await
    }

    /// Records the event of a stage where nothing can wait for it.
    fn record_detached(&self, stage: Stage) {
        let events = self.encode(Some(stage));
        self.store_detached(events);
    }

    fn store_detached(&self, events: Vec<u8>) {
        if !events.is_empty() {
            self.auditor.process_detached(&events.into());
        }
    }

    /// The deferred event, and the event of a stage, a line each, unless the policy omits them.
    fn encode(&self, stage: Option<Stage>) -> Vec<u8> {
        let mut state = self.lock();
        let deferred = state.deferred.take();
        let mut out = Vec::new();
        let Some(config) = state.config.filter(|it| it.level > Level::None) else { return out };
        let stages = || {
            let stages = deferred.into_iter().chain(stage);
            stages.filter(|stage| !config.omit_stages.contains(*stage))
        };
        out.reserve_exact(stages().count() * state.event.max_size());
        for stage in stages() {
            let now = match stage {
                Stage::RequestReceived => self.received,
                _ => self.auditor.clock.now(),
            };
            self.auditor.metrics.events.inc();
            state.event.encode(&mut out, config.level, &self.id, stage, [self.received, now]);
        }
        out
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditContext {
    /// Records the end of a request that was dropped before it had a response.
    fn drop(&mut self) {
        {
            let mut state = self.lock();
            let is_open = state.config.is_some_and(|it| it.level > Level::None);
            if state.is_finished || !is_open {
                return;
            }
            state.event.response_status.get_or_insert_with(event::status_of_canceled);
        }
        self.record_detached(Stage::ResponseComplete);
    }
}

/// Records the end of a response when it is dropped, unless that is recorded.
struct EndOfResponse(Option<Arc<AuditContext>>);

impl EndOfResponse {
    /// Records the end now, and waits for it until `deadline`.
    async fn record(mut self, deadline: Instant) {
        if let Some(context) = self.0.take() {
            context.record(Stage::ResponseComplete, Some(deadline)).await;
        }
    }
}

impl Drop for EndOfResponse {
    fn drop(&mut self) {
        let Some(context) = &self.0 else { return };
        context.record_detached(Stage::ResponseComplete);
    }
}

/// Upstream: endpoints/filters `getAuthMethods`.
fn attempted_methods(headers: &HeaderMap, has_certificate: bool) -> String {
    let header = headers::first(headers, AUTHORIZATION);
    let scheme = header.trim().split_once(' ').map_or("", |(scheme, _)| scheme);
    let mut methods = Vec::new();
    for name in ["basic", "bearer"] {
        if scheme.eq_ignore_ascii_case(name) {
            methods.push(name);
        }
    }
    if has_certificate {
        methods.push("x509");
    }
    if methods.is_empty() {
        return "Authentication failed, no credentials provided".to_owned();
    }
    format!("Authentication failed, attempted: {}", methods.join(", "))
}
