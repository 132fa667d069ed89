//! [`PriorityAndFairness`]: the flow schemas and priority levels in effect.
//!
//! ```text
//! request ── the first matching flow schema ──▶ priority level ── a seat, or a fair queue ──▶ executed
//!                                                     └── full, or waited too long ──▶ 429
//! ```
//!
//! The configuration follows the stored objects ([`PriorityAndFairness::configure`]). The mandatory
//! schemas and levels are in effect even if their objects are missing.

mod dump;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderValue;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::bootstrap_configuration::{CATCH_ALL, EXEMPT, flow_schemas, priority_levels};
use super::fair_queues::{ESTIMATED_DURATION, Queuing};
use super::flow_schema::FlowSchemaSpec;
use super::level_requests::{LevelRequests, RecordedRequest};
use super::priority_levels::{LevelId, LevelSeat, Limits, PriorityLevels, Refusal};
use super::retry_after::RetryAfter;
use super::seat_metrics::{SchemaMetrics, SeatMetrics};
use super::work_estimate::WorkEstimate;
use crate::auth::authentication::User;
use crate::request::RequestInfo;
use keel::Tasks;

/// The longest time for which a request waits for its seat.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// A stored flow schema or priority level.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Stored<Spec> {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    uid: String,
}

/// The spec of a priority level.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PriorityLevelSpec {
    #[serde(rename = "type")]
    kind: String,
    limited: Option<LevelShares>,
    exempt: Option<LevelShares>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LevelShares {
    nominal_concurrency_shares: Option<u32>,
    lendable_percent: Option<u32>,
    borrowing_limit_percent: Option<u32>,
    limit_response: Option<LimitResponse>,
}

#[derive(Debug, Clone, Deserialize)]
struct LimitResponse {
    queuing: Option<StoredQueuing>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredQueuing {
    queues: u32,
    hand_size: u32,
    queue_length_limit: usize,
}

impl PriorityLevelSpec {
    /// The shares of the level; None if the spec contradicts itself.
    fn shares(&self, name: &str) -> Option<&LevelShares> {
        match (&*self.kind, &self.limited, &self.exempt) {
            ("Limited", Some(shares), None) if name != EXEMPT => Some(shares),
            ("Exempt", None, Some(shares)) if name == EXEMPT => Some(shares),
            _ => None,
        }
    }
}

impl LevelShares {
    fn nominal(&self) -> u32 {
        self.nominal_concurrency_shares.unwrap_or(30)
    }

    /// The limits of a level with these shares of `seats`, if all levels have `all` shares.
    fn limits(&self, seats: usize, all: u64) -> Limits {
        let nominal = (seats as u64 * u64::from(self.nominal())).div_ceil(all.max(1));
        let percent = |percent: u32| (nominal * u64::from(percent) + 50) / 100;
        let lendable = percent(self.lendable_percent.unwrap_or(0)).min(nominal);
        let borrowed = self.borrowing_limit_percent.map_or(seats as u64, percent);
        let size = |seats: u64| usize::try_from(seats).unwrap_or(usize::MAX);
        let queuing = self.limit_response.as_ref().and_then(|it| it.queuing);
        Limits {
            nominal: size(nominal),
            lower: size(nominal - lendable),
            upper: size(nominal + borrowed),
            queuing: queuing.map(|it| Queuing {
                queues: it.queues,
                hand_size: it.hand_size,
                length_limit: it.queue_length_limit,
            }),
        }
    }
}

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct PriorityAndFairness {
    /// The seats of all levels.
    seats: usize,
    started: Instant,
    /// The tasks in which seats stay in use after the execution of a request.
    tasks: Tasks,
    metrics: SeatMetrics,
    levels: Arc<PriorityLevels>,
    /// In the order in which they are tried. The last one is `catch-all`.
    schemas: ArcSwap<Vec<Arc<FlowSchema>>>,
    /// The levels by name. The lock is held while the configuration changes.
    configured: Mutex<BTreeMap<String, Arc<PriorityLevel>>>,
}

/// A flow schema in effect.
#[derive(Debug)]
pub(crate) struct FlowSchema {
    name: String,
    /// The value of the response header with the uid of the schema.
    pub uid: HeaderValue,
    /// The value of the response header with the uid of the priority level.
    pub level_uid: HeaderValue,
    spec: FlowSchemaSpec,
    level: Arc<PriorityLevel>,
    metrics: SchemaMetrics,
}

impl FlowSchema {
    /// Counts a write whose event is sent to this many watches.
    pub(crate) fn observe_watches(&self, watches: usize) {
        let watches = u32::try_from(watches).unwrap_or(u32::MAX);
        self.metrics.watch_counts.observe(f64::from(watches));
    }

    /// The names of the schema and of its level, by which its metrics are labelled.
    fn series(&self) -> (&str, &str) {
        (&self.name, &self.spec.priority_level_configuration.name)
    }
}

#[derive(Debug)]
struct PriorityLevel {
    /// None if the level is exempt.
    id: Option<LevelId>,
    limits: Limits,
    retry_after: Arc<Mutex<RetryAfter>>,
    requests: Arc<LevelRequests>,
}

impl PriorityLevel {
    /// The maximum number of seats of one request. Upstream: so few that a hand of queues does not
    /// occupy the level.
    fn max_seats(&self) -> usize {
        let Some(queuing) = self.limits.queuing else { return usize::MAX };
        let nominal = self.limits.nominal;
        (nominal * 15).div_ceil(100).min(nominal / (queuing.hand_size.max(1) as usize)).max(1)
    }
}

/// Who requests what, until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatRequest<'a> {
    /// The user.
    pub user: &'a User,
    /// The verb and the resource.
    pub info: &'a RequestInfo,
    /// The time at which the request was received.
    pub arrival: Instant,
    /// The time by which the request must be answered.
    pub deadline: Instant,
}

/// The answer to a request without a seat: 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRequests {
    /// The seconds after which the client should try again.
    pub retry_after: u64,
}

impl PriorityAndFairness {
    /// The mandatory levels, with `seats` seats.
    pub(super) fn new(seats: usize, tasks: &Tasks, registry: &mut Registry) -> Self {
        let this = Self {
            seats,
            tasks: tasks.clone(),
            started: Instant::now(),
            metrics: SeatMetrics::new(registry),
            levels: PriorityLevels::new(),
            schemas: ArcSwap::default(),
            configured: Mutex::default(),
        };
        this.configure(Vec::new(), Vec::new());
        this
    }

    /// Puts the stored objects into effect. Requests that wait stay in their queues.
    pub(crate) fn configure(
        &self,
        mut schemas: Vec<Stored<FlowSchemaSpec>>,
        mut levels: Vec<Stored<PriorityLevelSpec>>,
    ) {
        levels.retain(|it| it.spec.shares(&it.metadata.name).is_some());
        for mandatory in priority_levels().into_iter().filter(|it| it.is_mandatory) {
            if !levels.iter().any(|it| it.metadata.name == mandatory.name) {
                levels.push(serde_json::from_value(mandatory.object()).expect("the spec is valid"));
            }
        }
        for mandatory in flow_schemas().into_iter().filter(|it| it.is_mandatory) {
            if !schemas.iter().any(|it| it.metadata.name == mandatory.name) {
                schemas
                    .push(serde_json::from_value(mandatory.object()).expect("the spec is valid"));
            }
        }
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.configure_levels(&levels, &configured);
        let schemas = self.configure_schemas(schemas, &levels, &next);
        // Before levels are removed, so that new requests do not find them.
        let before = self.schemas.swap(Arc::new(schemas));
        self.remove_series(&before);
        for (name, level) in configured.iter().filter(|(name, _)| !next.contains_key(*name)) {
            self.metrics.remove_limits(name);
            if let Some(id) = level.id {
                self.levels.remove(id);
            }
        }
        *configured = next;
    }

    /// Removes the series of former schemas that are not in effect any more.
    fn remove_series(&self, before: &[Arc<FlowSchema>]) {
        let schemas = self.schemas.load();
        let present: BTreeSet<_> = schemas.iter().map(|it| it.series()).collect();
        for (schema, level) in before.iter().map(|it| it.series()) {
            if !present.contains(&(schema, level)) {
                self.metrics.remove(schema, level);
            }
        }
    }

    fn configure_levels(
        &self,
        levels: &[Stored<PriorityLevelSpec>],
        before: &BTreeMap<String, Arc<PriorityLevel>>,
    ) -> BTreeMap<String, Arc<PriorityLevel>> {
        let shares =
            || levels.iter().filter_map(|it| Some((it, it.spec.shares(&it.metadata.name)?)));
        let all = shares().map(|(_, shares)| u64::from(shares.nominal())).sum();
        let level = |(stored, shares): (&Stored<PriorityLevelSpec>, &LevelShares)| {
            let name = &stored.metadata.name;
            let limits = shares.limits(self.seats, all);
            self.metrics.set_limits(name, &limits);
            let known = before.get(name);
            let id = match known.and_then(|it| it.id) {
                _ if name == EXEMPT => None,
                Some(id) => {
                    self.levels.set(id, limits);
                    Some(id)
                }
                None => Some(self.levels.add(limits)),
            };
            let retry_after = known.map(|it| Arc::clone(&it.retry_after)).unwrap_or_default();
            let requests = known.map(|it| Arc::clone(&it.requests)).unwrap_or_default();
            (name.clone(), Arc::new(PriorityLevel { id, limits, retry_after, requests }))
        };
        shares().map(level).collect()
    }

    /// The schemas in their order, without those whose level is missing.
    fn configure_schemas(
        &self,
        schemas: Vec<Stored<FlowSchemaSpec>>,
        levels: &[Stored<PriorityLevelSpec>],
        configured: &BTreeMap<String, Arc<PriorityLevel>>,
    ) -> Vec<Arc<FlowSchema>> {
        let uid = |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
        let mut all: Vec<Arc<FlowSchema>> = schemas
            .into_iter()
            .filter_map(|Stored { metadata, spec }| {
                let level_name = &spec.priority_level_configuration.name;
                let level = Arc::clone(configured.get(level_name)?);
                let stored = levels.iter().find(|it| it.metadata.name == *level_name)?;
                Some(Arc::new(FlowSchema {
                    uid: uid(&metadata.uid),
                    level_uid: uid(&stored.metadata.uid),
                    metrics: self.metrics.of(&metadata.name, level_name),
                    name: metadata.name,
                    spec,
                    level,
                }))
            })
            .collect();
        // A schema with the highest number may come after `catch-all` by its name; that one still
        // takes what no schema matches.
        all.sort_by(|a, b| {
            let key = |it: &FlowSchema| (it.name == CATCH_ALL, it.spec.matching_precedence);
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        all
    }

    /// The schema of a request.
    pub(crate) fn classify(&self, user: &User, info: &RequestInfo) -> Arc<FlowSchema> {
        let schemas = self.schemas.load();
        let found = schemas.iter().find(|it| it.spec.matches(user, info)).or(schemas.last());
        Arc::clone(found.expect("the schema catch-all is mandatory"))
    }

    /// Waits for the seats of a request: at most a quarter of the time in which it must be answered.
    /// The argument of `estimate` is the maximum number of seats.
    pub(super) async fn take(
        &self,
        schema: &Arc<FlowSchema>,
        request: SeatRequest<'_>,
        estimate: impl FnOnce(usize) -> WorkEstimate,
    ) -> Result<FairSeat, TooManyRequests> {
        let Some(mut level) = schema.level.id else {
            return Ok(self.exempt(schema, request));
        };
        let estimate = estimate(schema.level.max_seats());
        let taken = loop {
            let hash = || schema.spec.flow_hash(&schema.name, request.user, request.info);
            match self.levels.take(level, estimate, hash) {
                Some(taken) => break taken,
                // The level was deleted after the request was classified.
                None => match self.classify(request.user, request.info).level.id {
                    Some(id) => level = id,
                    None => return Ok(self.exempt(schema, request)),
                },
            }
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                schema.level.requests.reject();
                return Err(self.refuse(schema, refusal, Duration::ZERO));
            }
        };
        let recorded = schema.level.requests.add(schema, request, taken.queue(), estimate);
        if !taken.is_waiting() {
            let seat = taken.wait(request.arrival).await.ok();
            schema.metrics.execute(0.0);
            return Ok(FairSeat::new(schema, seat, recorded, estimate, &self.tasks));
        }
        let limit = request.deadline.saturating_duration_since(request.arrival) / 4;
        let began = Instant::now();
        let waiting = Counted::new(&schema.metrics.waiting, 1);
        let waited = taken.wait(request.arrival + limit.min(MAX_WAIT)).await;
        drop(waiting);
        match waited {
            Ok(seat) => {
                schema.metrics.execute(began.elapsed().as_secs_f64());
                Ok(FairSeat::new(schema, Some(seat), recorded, estimate, &self.tasks))
            }
            Err(refusal) => Err(self.refuse(schema, refusal, began.elapsed())),
        }
    }

    /// The seat of a request of an exempt level.
    fn exempt(&self, schema: &Arc<FlowSchema>, request: SeatRequest<'_>) -> FairSeat {
        let estimate = WorkEstimate::of_seats(1);
        let recorded = schema.level.requests.add(schema, request, None, estimate);
        schema.metrics.dispatched.inc();
        FairSeat::new(schema, None, recorded, estimate, &self.tasks)
    }

    fn refuse(&self, schema: &FlowSchema, refusal: Refusal, waited: Duration) -> TooManyRequests {
        schema.metrics.refuse(refusal, waited.as_secs_f64());
        let second = self.started.elapsed().as_secs();
        let mut retry_after =
            schema.level.retry_after.lock().unwrap_or_else(PoisonError::into_inner);
        TooManyRequests { retry_after: retry_after.refuse(second) }
    }
}

/// A gauge that is increased until this is dropped.
#[derive(Debug)]
struct Counted {
    gauge: Gauge,
    count: i64,
}

impl Counted {
    fn new(gauge: &Gauge, count: i64) -> Self {
        gauge.inc_by(count);
        Self { gauge: gauge.clone(), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec_by(self.count);
    }
}

/// The seats of a request. When this is dropped, the execution ends, and the seats are released after
/// the additional latency of the request.
#[derive(Debug)]
pub(super) struct FairSeat {
    /// None only while this is dropped.
    held: Option<HeldSeat>,
    tasks: Tasks,
}

/// Everything that is released with the seats.
#[derive(Debug)]
struct HeldSeat {
    /// None if the level is exempt.
    seat: Option<LevelSeat>,
    _recorded: RecordedRequest,
    _executing: Counted,
    _seats: Counted,
}

impl FairSeat {
    fn new(
        schema: &FlowSchema,
        seat: Option<LevelSeat>,
        mut recorded: RecordedRequest,
        estimate: WorkEstimate,
        tasks: &Tasks,
    ) -> Self {
        recorded.start();
        let seats = i64::try_from(estimate.max_seats()).unwrap_or(i64::MAX);
        let held = HeldSeat {
            seat,
            _recorded: recorded,
            _executing: Counted::new(&schema.metrics.executing, 1),
            _seats: Counted::new(&schema.metrics.seats, seats),
        };
        Self { held: Some(held), tasks: tasks.clone() }
    }

    fn seat(&self) -> Option<&LevelSeat> {
        self.held.as_ref().and_then(|it| it.seat.as_ref())
    }

    /// Releases the seats until [`FairSeat::resume`]; false if they are lent already, or there are
    /// none.
    pub(super) fn pause(&self) -> bool {
        self.seat().is_some_and(LevelSeat::pause)
    }

    /// Takes lent seats back.
    pub(super) fn resume(&self) {
        if let Some(seat) = self.seat() {
            seat.resume();
        }
    }
}

impl Drop for FairSeat {
    fn drop(&mut self) {
        let Some(mut held) = self.held.take() else { return };
        let latency = held.seat.as_mut().map_or(Duration::ZERO, LevelSeat::end_execution);
        // Without a runtime, the process ends.
        if latency.is_zero() || self.tasks.is_stopping() || Handle::try_current().is_err() {
            return;
        }
        let stopping = self.tasks.shutdown();
        self.tasks.spawn("final-seats", async move {
            tokio::select! {
                () = tokio::time::sleep(latency) => {}
                () = stopping => {}
            }
            drop(held);
        });
    }
}

#[cfg(test)]
mod tests;
