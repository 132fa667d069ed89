//! Limits the number of concurrent requests and their memory, so that overload is refused early.
//!
//! A request takes its seats when everything that it needs from its client has arrived: a request that
//! is not authorized, or whose body has not arrived, has none. Seats belong to priority levels, in
//! which requests wait in fair queues ([`priority_and_fairness`]); a request that waits too long, or
//! finds its queue full, is answered with 429 and `Retry-After`. Watches have seats only while they
//! begin. Without priority and fairness, reads and writes have separate seats, and a request that finds
//! none is refused at once.
//!
//! The memory of request bodies is limited too, and so is the memory of answers that clients do not
//! read ([`answer_accounts`]). Users share memory fairly ([`Shares`]), so that no user can starve
//! another. The bodies of `system:masters` have a separate limit.
//!
//! Before a request has a seat, its connection has been decrypted and parsed. The connections of one user
//! do not occupy all threads for that while others are active ([`keel::ThreadShare`]).
//!
//! The components of the plane (controllers, scheduler, simulated nodes) share the process of the
//! server. They have seats of their own, and wait for one instead of being refused: their number is
//! bounded, and a refusal would only make them come again later.
//!
//! A request that waits for a webhook lends its seats to other requests meanwhile: the webhook may have
//! to send requests to this server before it can answer, and a webhook that hangs must not stop other
//! requests. At most [`MAX_WAITING`] requests wait without a seat; the others keep their seats.
//!
//! A write whose event is sent to many watches keeps its seats for some time after its response
//! ([`work_estimate`]).

pub(crate) mod bootstrap_configuration;
mod flow_schema;
mod work_estimate;
mod watch_tracker;
mod priority_and_fairness;
mod priority_levels;
mod fair_queues;
mod level_requests;
mod shuffle_sharding;
mod retry_after;
mod seat_metrics;
mod answer_accounts;
mod encoded_items;
pub(crate) mod connection;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::authentication::{User, service_account};
use crate::auth::authorization::masters;
use crate::request::{RequestInfo, Verb};
use answer_accounts::AnswerAccounts;
use keel::{Share, Shares, Tasks, ThreadShare, Threads};
use machinery::Status;
use priority_and_fairness::FairSeat;

pub(crate) use answer_accounts::{AnswerAccount, Charge, ConnectionCharge, STREAM_OVERHEAD};
pub(crate) use encoded_items::{EncodedItem, EncodedItems};
pub(crate) use flow_schema::FlowSchemaSpec;
pub(crate) use priority_and_fairness::{
    FlowSchema, PriorityAndFairness, PriorityLevelSpec, SeatRequest, Stored, TooManyRequests,
};

pub(crate) use watch_tracker::{TrackedWatch, WatchTracker};
pub(crate) use work_estimate::WorkEstimate;

/// The maximum number of requests that wait for a webhook without a seat.
const MAX_WAITING: usize = 2048;

/// The maximum size of the request bodies in memory, in bytes.
const MAX_BODIES: usize = 128 << 20;

/// The maximum size of the request bodies of `system:masters` in memory, in bytes.
const MAX_EXEMPT_BODIES: usize = 512 << 20;

/// The maximum size of the objects in lists that are being sent, besides the first list of each user,
/// which is always sent. An object that is changed or deleted meanwhile stays in memory until its list
/// is read.
const MAX_LISTS: usize = 128 << 20;

/// The maximum size of unread lists that had to be encoded completely before they are sent.
const MAX_ANSWERS: usize = 32 << 20;

/// The maximum size of the encodings of large items in lists that are being sent.
const MAX_ENCODED_ITEMS: usize = 16 << 20;

/// The maximum size of all unread answers on connections, except those of masters. One user can fill
/// half of it.
const MAX_UNREAD: usize = 64 << 20;

/// Whether requests have priority levels and fair queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fairness {
    /// They have the levels and queues of the stored objects.
    Enabled,
    /// Reads and writes have separate limits, and requests beyond them are refused.
    Disabled,
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct FlowControl {
    /// None if it is disabled.
    fair: Option<PriorityAndFairness>,
    /// The seats without priority and fairness.
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
    component_reads: Arc<Semaphore>,
    component_writes: Arc<Semaphore>,
    bodies: Arc<Shares>,
    exempt_bodies: Arc<Shares>,
    answers: Arc<Shares>,
    lists: Arc<Shares>,
    unread: AnswerAccounts,
    /// The share of the threads for connections without a user.
    pub unauthenticated_threads: Arc<ThreadShare>,
    /// The share of the threads for masters.
    pub master_threads: Arc<ThreadShare>,
    /// The share of the threads for controllers and nodes in this process.
    pub component_threads: Arc<ThreadShare>,
    /// The watches that are in progress.
    pub watches: Arc<WatchTracker>,
    /// The encodings of large items in lists that are being sent.
    pub encoded_items: Arc<EncodedItems>,
    waiting: Arc<Semaphore>,
}

/// The seat of a request, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    kind: SeatKind,
    /// Limits the requests that wait without a seat.
    waiting: Arc<Semaphore>,
}

#[derive(Debug)]
enum SeatKind {
    /// The request is not counted.
    Exempt,
    /// The seats of a priority level.
    Fair(Arc<FairSeat>),
    /// A seat of those for components, or without priority and fairness.
    Permit(Arc<PermitSeat>),
}

/// None after the seat was lent: a request that comes back from a webhook continues without one.
#[derive(Debug)]
struct PermitSeat(Mutex<Option<OwnedSemaphorePermit>>);

impl PermitSeat {
    /// Releases the seat; false if it is released already.
    fn release(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

impl Seat {
    /// A handle that can lend the seat.
    pub(crate) fn handle(&self) -> SeatHandle {
        let kind = match &self.kind {
            SeatKind::Exempt => HandleKind::Exempt,
            SeatKind::Fair(seat) => HandleKind::Fair(Arc::downgrade(seat)),
            SeatKind::Permit(seat) => HandleKind::Permit(Arc::downgrade(seat)),
        };
        SeatHandle { kind, waiting: Arc::clone(&self.waiting) }
    }
}

/// Refers to a seat without holding it.
#[derive(Debug, Clone)]
pub(crate) struct SeatHandle {
    kind: HandleKind,
    waiting: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
enum HandleKind {
    Exempt,
    Fair(Weak<FairSeat>),
    Permit(Weak<PermitSeat>),
}

impl SeatHandle {
    /// Lends the seat of a request that waits for a webhook to other requests. None if the request has
    /// no seat, or too many requests wait.
    pub(crate) fn lend(&self) -> Option<Loan> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let seat = match &self.kind {
            HandleKind::Exempt => return None,
            HandleKind::Fair(seat) => Some(seat.upgrade().filter(|it| it.pause())?),
            HandleKind::Permit(seat) => {
                seat.upgrade().filter(|it| it.release())?;
                None
            }
        };
        Some(Loan { seat, _waiting: waiting })
    }
}

/// A seat that is lent to others until this is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    /// What the lender takes back; None if the seat was released.
    seat: Option<Arc<FairSeat>>,
    _waiting: OwnedSemaphorePermit,
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.resume();
        }
    }
}

/// The memory of a request body, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct BodyMemory(Share);

impl BodyMemory {
    /// Counts more bytes; fails if the limit is reached.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        if self.0.grow(bytes) { Ok(()) } else { Err(too_many()) }
    }
}

/// The memory of an answer that is encoded before it is sent, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    _share: Share,
}

impl FlowControl {
    /// Creates flow control with these numbers of seats for reads and for writes. Priority levels
    /// share the sum of them.
    pub(crate) fn new(
        reads: usize,
        writes: usize,
        fairness: Fairness,
        tasks: &Tasks,
        registry: &mut Registry,
    ) -> Self {
        let fair = (fairness == Fairness::Enabled)
            .then(|| PriorityAndFairness::new(reads + writes, tasks, registry));
        let threads = Threads::current();
        Self {
            fair,
            reads: semaphore(reads),
            writes: semaphore(writes),
            component_reads: semaphore(reads),
            component_writes: semaphore(writes),
            bodies: Shares::new(MAX_BODIES),
            exempt_bodies: Shares::new(MAX_EXEMPT_BODIES),
            answers: Shares::new(MAX_ANSWERS),
            lists: Shares::new(MAX_LISTS),
            unread: AnswerAccounts::new(MAX_UNREAD, &threads),
            unauthenticated_threads: threads.unauthenticated_share(),
            master_threads: threads.unlimited_share(),
            component_threads: threads.component_share(),
            watches: Arc::default(),
            encoded_items: EncodedItems::new(MAX_ENCODED_ITEMS),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
        }
    }

    /// Priority and fairness, if it is enabled.
    pub(crate) fn priority_and_fairness(&self) -> Option<&PriorityAndFairness> {
        self.fair.as_ref()
    }

    /// The flow schema of a request. None if the request is not limited by one: priority and fairness
    /// is disabled, or it is a connection to a container.
    pub(crate) fn classify(&self, user: &User, info: &RequestInfo) -> Option<Arc<FlowSchema>> {
        let is_connection = info.is_long_running() && info.verb != Verb::Watch;
        self.fair.as_ref().filter(|_| !is_connection).map(|it| it.classify(user, info))
    }

    /// Takes the seats of a request, and waits for them if the priority level of its `schema` has
    /// queues. The argument of `estimate` is the maximum number of seats.
    pub(crate) async fn take_seat(
        &self,
        schema: Option<&Arc<FlowSchema>>,
        request: SeatRequest<'_>,
        estimate: impl FnOnce(usize) -> WorkEstimate,
    ) -> Result<Seat, TooManyRequests> {
        let kind = match (&self.fair, schema) {
            (Some(fair), Some(schema)) => {
                SeatKind::Fair(Arc::new(fair.take(schema, request, estimate).await?))
            }
            (Some(_), None) => SeatKind::Exempt,
            (None, _) => self.permit(request.user, request.info)?,
        };
        Ok(self.seat(kind))
    }

    /// Upstream: the filter `WithMaxInFlightLimit`.
    fn permit(&self, user: &User, info: &RequestInfo) -> Result<SeatKind, TooManyRequests> {
        if info.is_long_running() || is_exempt(user, info) {
            return Ok(SeatKind::Exempt);
        }
        let seats = if info.verb.is_read_only() { &self.reads } else { &self.writes };
        match Arc::clone(seats).try_acquire_owned() {
            Ok(permit) => Ok(SeatKind::Permit(Arc::new(PermitSeat(Mutex::new(Some(permit)))))),
            Err(_) => Err(TooManyRequests { retry_after: 1 }),
        }
    }

    /// Takes a seat for a component of the plane as soon as one is free.
    pub(crate) async fn component_seat(&self, user: &User, info: &RequestInfo) -> Seat {
        if is_exempt(user, info) {
            return self.seat(SeatKind::Exempt);
        }
        let seats =
            if info.verb.is_read_only() { &self.component_reads } else { &self.component_writes };
        // The semaphore is never closed.
        let permit = Arc::clone(seats).acquire_owned().await.ok();
        self.seat(SeatKind::Permit(Arc::new(PermitSeat(Mutex::new(permit)))))
    }

    fn seat(&self, kind: SeatKind) -> Seat {
        Seat { kind, waiting: Arc::clone(&self.waiting) }
    }

    /// The account of a user's answers; None for masters, whose answers are not limited.
    pub(crate) fn answer_account(&self, user: &User) -> Option<Arc<AnswerAccount>> {
        (!masters::contains(user)).then(|| self.unread.of(&flow(user)))
    }

    /// The memory for a request body of this user.
    pub(crate) fn body_memory(&self, user: &User) -> Result<BodyMemory, Status> {
        let bodies = if masters::contains(user) { &self.exempt_bodies } else { &self.bodies };
        bodies.take(&flow(user), 0).map(BodyMemory).ok_or_else(too_many)
    }

    /// The memory for an answer of about `bytes` bytes; None if the user has too many unread answers.
    pub(crate) fn answer_memory(&self, user: &User, bytes: usize) -> Option<AnswerMemory> {
        self.answers.take(&flow(user), bytes).map(|it| AnswerMemory { _share: it })
    }

    /// The memory for the objects of a list until it is sent. A user without another list in progress
    /// always gets it, and masters need none.
    pub(crate) fn list_memory(
        &self,
        user: &User,
        bytes: usize,
    ) -> Result<Option<AnswerMemory>, Status> {
        if masters::contains(user) {
            return Ok(None);
        }
        let share = self.lists.take_or_first(&flow(user), bytes).ok_or_else(too_many)?;
        Ok(Some(AnswerMemory { _share: share }))
    }
}

/// Upstream: a limit of 0 is none.
fn semaphore(seats: usize) -> Arc<Semaphore> {
    let seats = if seats == 0 { Semaphore::MAX_PERMITS } else { seats };
    Arc::new(Semaphore::new(seats.min(Semaphore::MAX_PERMITS)))
}

/// The flow of a user, among which memory is shared: a user, or all service accounts of a
/// namespace, since a user who may create one service account may create many.
fn flow(user: &User) -> Cow<'_, str> {
    match service_account::parse_user(&user.name) {
        Some((namespace, _)) => format!("system:serviceaccounts:{namespace}").into(),
        None => user.name.as_str().into(),
    }
}

/// The flow in which large requests of a user are queued; None for masters, whose requests are not
/// queued.
pub(crate) fn large_request_flow(user: &User) -> Option<Cow<'_, str>> {
    (!masters::contains(user)).then(|| flow(user))
}

/// Upstream: the flow schemas `exempt` and `probes`.
fn is_exempt(user: &User, info: &RequestInfo) -> bool {
    masters::contains(user) || is_probe(info)
}

fn too_many() -> Status {
    Status::too_many_requests("too many requests, please try again later.", 1)
}

/// Fails with 429 for an answer of about `bytes` bytes if its user has too many unread answers.
pub(crate) fn check_room(account: Option<&AnswerAccount>, bytes: usize) -> Result<(), Status> {
    if account.is_none_or(|it| it.has_room(bytes)) { Ok(()) } else { Err(too_many()) }
}

/// Counts a connection of a user; fails with 429 if the user has `max_connections` already.
pub(crate) fn charge_connection(
    account: &Arc<AnswerAccount>,
    max_connections: usize,
) -> Result<ConnectionCharge, Status> {
    ConnectionCharge::new(account, max_connections).ok_or_else(too_many)
}

/// Upstream: the flow schema `probes` is exempt.
pub(crate) fn is_probe(info: &RequestInfo) -> bool {
    info.verb == Verb::Get && matches!(info.path.as_str(), "/healthz" | "/livez" | "/readyz")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use futures_util::FutureExt;
    use http::Method;
    use tokio::time::Instant;

    use super::*;
    use crate::request::Query;

    fn info(method: &Method, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, &Query::default()).unwrap()
    }

    fn flow(reads: usize, writes: usize, fairness: Fairness) -> FlowControl {
        FlowControl::new(reads, writes, fairness, &Tasks::new(), &mut Registry::default())
    }

    fn try_take(flow: &FlowControl, user: &User, info: &RequestInfo) -> Option<Seat> {
        let now = Instant::now();
        let request =
            SeatRequest { user, info, arrival: now, deadline: now + Duration::from_mins(1) };
        let schema = flow.classify(user, info);
        flow.take_seat(schema.as_ref(), request, |_| WorkEstimate::of_seats(1)).now_or_never()?.ok()
    }

    fn take(flow: &FlowControl, user: &User, method: &Method) -> Option<Seat> {
        try_take(flow, user, &info(method, "/api/v1/pods"))
    }

    fn user(name: &str) -> User {
        User::authenticated(name, "", Vec::new())
    }

    #[test]
    fn service_accounts_of_a_namespace_share_the_memory_of_one_user() {
        let flow = flow(8, 8, Fairness::Enabled);
        let account = |number| user(&format!("system:serviceaccount:team:a{number}"));
        let some: Vec<_> =
            (0..20).map(|it| flow.list_memory(&account(it), MAX_LISTS / 8)).collect();
        assert_eq!(some.iter().filter(|it| it.is_ok()).count(), 4);
        assert!(flow.list_memory(&user("system:serviceaccount:other:a"), 1).is_ok());
    }

    #[test]
    fn the_first_list_of_a_user_is_never_refused_and_further_ones_are_limited() {
        let flow = flow(8, 8, Fairness::Enabled);
        let alice = user("alice");
        let first = flow.list_memory(&alice, 2 * MAX_LISTS).unwrap();
        assert_eq!(flow.list_memory(&alice, 1).map(drop).unwrap_err().code, 429);
        assert!(flow.list_memory(&user("bob"), 1).is_ok());
        drop(first);
        let some: Vec<_> = (0..20).map(|_| flow.list_memory(&alice, MAX_LISTS / 8)).collect();
        assert_eq!(some.iter().filter(|it| it.is_ok()).count(), 4);
    }

    #[test]
    fn a_lent_seat_cannot_be_lent_again() {
        let flow = flow(1, 1, Fairness::Enabled);
        let seat = take(&flow, &user("a"), &Method::POST).unwrap();
        let loan = seat.handle().lend().unwrap();
        assert!(seat.handle().lend().is_none());
        drop(loan);
        assert!(seat.handle().lend().is_some());
    }

    #[test]
    fn without_fairness_writes_beyond_the_limit_are_refused_and_reads_are_not() {
        let flow = flow(1, 1, Fairness::Disabled);
        let seat = take(&flow, &user("a"), &Method::POST).unwrap();
        assert!(take(&flow, &user("b"), &Method::PUT).is_none());
        assert!(take(&flow, &user("b"), &Method::GET).is_some());
        drop(seat);
        assert!(take(&flow, &user("b"), &Method::PUT).is_some());
    }

    #[test]
    fn masters_and_probes_need_no_seat_without_fairness() {
        let flow = flow(1, 1, Fairness::Disabled);
        let _seats = [&Method::GET, &Method::POST].map(|it| take(&flow, &user("a"), it).unwrap());
        let master = masters::member("root");
        assert!(take(&flow, &master, &Method::POST).is_some());
        let anonymous = User::anonymous();
        assert!(try_take(&flow, &anonymous, &info(&Method::GET, "/readyz")).is_some());
        assert!(try_take(&flow, &anonymous, &info(&Method::GET, "/version")).is_none());
    }

    #[test]
    fn a_connection_to_a_container_needs_no_seat() {
        let flow = flow(0, 0, Fairness::Enabled);
        let path = "/api/v1/namespaces/a/pods/b/exec";
        assert!(try_take(&flow, &user("a"), &info(&Method::POST, path)).is_some());
    }

    #[test]
    fn a_request_that_waits_for_a_webhook_lends_its_seat() {
        let flow = flow(1, 0, Fairness::Enabled);
        let (a, b) = (user("a"), user("b"));
        let waiting = take(&flow, &a, &Method::POST).unwrap();
        let loan = waiting.handle().lend().unwrap();
        let borrower = take(&flow, &b, &Method::POST).unwrap();
        drop(loan);
        drop(borrower);
        assert!(take(&flow, &b, &Method::POST).is_none(), "the lent seat was taken back");
        drop(waiting);
        assert!(take(&flow, &b, &Method::POST).is_some());
    }

    #[test]
    fn a_component_waits_for_a_seat_of_its_own() {
        let flow = flow(1, 1, Fairness::Enabled);
        let post = info(&Method::POST, "/api/v1/pods");
        let controller = user("system:serviceaccount:kube-system:job-controller");
        let _other = take(&flow, &user("a"), &Method::POST).unwrap();
        let first = flow.component_seat(&controller, &post).now_or_never().unwrap();
        let mut second = pin!(flow.component_seat(&controller, &post));
        assert!(second.as_mut().now_or_never().is_none());
        let loan = first.handle().lend().unwrap();
        assert!(second.now_or_never().is_some(), "the first request waits for a webhook");
        drop(loan);
        assert!(first.handle().lend().is_none(), "it went on without a seat");
    }

    #[test]
    fn the_bodies_of_one_user_leave_memory_for_others() {
        let flow = flow(1, 1, Fairness::Enabled);
        let mut large = flow.body_memory(&user("a")).unwrap();
        large.grow(MAX_BODIES / 2).unwrap();
        assert_eq!(large.grow(1).unwrap_err().code, 429);
        flow.body_memory(&user("b")).unwrap().grow(MAX_BODIES / 4).unwrap();
    }
}
