//! Reads and writes of one resource: for each number of clients, objects are created, used and
//! deleted, so that every list has the same length.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use http::Method;

use super::Operation;
use super::load::{Bound, Outcome, Step, closed_loop};
use super::objects::{Sample, resource_version};
use super::pool::{JSON, MERGE_PATCH};
use super::report::{Report, Title};
use super::session::Session;

/// The number of clients for operations that are not measured.
const UNMEASURED_CLIENTS: usize = 16;

/// Lists are this many times rarer than other operations, since each list reads all objects.
const OPERATIONS_PER_LIST: u64 = 20;

/// The workload of one resource.
pub(crate) struct Workload<'a> {
    /// The state of the run.
    pub session: &'a Session<'a>,
    /// The resource to read and write.
    pub sample: &'a Sample,
    /// The measured operations; others run only as far as these need them.
    pub operations: &'a [Operation],
}

/// An object that may exist.
struct Slot {
    name: String,
    path: String,
    /// The last known resource version; none if the object does not exist. Only one client at a
    /// time writes an object, so the lock is never contended.
    version: Mutex<Option<String>>,
}

impl Workload<'_> {
    /// Measures with each number of clients.
    pub(crate) async fn run(&self, concurrencies: &[usize], report: &mut Report) -> Result<()> {
        let time = self.session.bound.time;
        let mut slots = Vec::new();
        for &clients in concurrencies {
            if self.measures(Operation::Create) {
                self.delete_unmeasured(slots).await?;
                slots = self.slots(clients);
                let title = self.title(Operation::Create, clients);
                self.session.measure(report, title, self.create(clients, &slots, time)).await;
            } else if slots.is_empty() {
                slots = self.slots(clients);
                require_success(&self.create(UNMEASURED_CLIENTS, &slots, Duration::MAX).await)?;
            }
            slots.retain(Slot::exists);
            if slots.is_empty() {
                bail!(
                    "no {} could be created: {}",
                    self.sample.resource,
                    report.failures.join(", ")
                );
            }
            for operation in [Operation::Get, Operation::List, Operation::Update, Operation::Patch]
            {
                if self.measures(operation) {
                    let work = self.repeat(operation, clients, &slots);
                    self.session.measure(report, self.title(operation, clients), work).await;
                }
            }
            if self.measures(Operation::Delete) {
                let title = self.title(Operation::Delete, clients);
                self.session.measure(report, title, self.delete(clients, &slots, time)).await;
                slots.retain(Slot::exists);
                self.delete_unmeasured(std::mem::take(&mut slots)).await?;
            }
        }
        self.delete_unmeasured(slots).await
    }

    fn measures(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    fn title(&self, operation: Operation, concurrency: usize) -> Title {
        Title { resource: self.sample.resource, operation: operation.name(), concurrency }
    }

    fn slots(&self, clients: usize) -> Vec<Slot> {
        let slot = |number: usize| {
            let name = format!("bench-{clients}-{number:06}");
            let path = format!("{}/{name}", self.sample.collection);
            Slot { name, path, version: Mutex::default() }
        };
        (0..self.session.objects).map(slot).collect()
    }

    async fn create(&self, clients: usize, slots: &[Slot], time: Duration) -> Outcome {
        closed_loop(
            clients,
            Bound { count: slots.len() as u64, time, interval: Duration::ZERO },
            async |step| {
                let slot = slot_of_number(slots, step);
                let body = self.sample.body(&slot.name, None, self.session.next_mark());
                slot.write(self, Method::POST, &self.sample.collection, JSON, body).await
            },
        )
        .await
    }

    async fn delete(&self, clients: usize, slots: &[Slot], time: Duration) -> Outcome {
        closed_loop(
            clients,
            Bound { count: slots.len() as u64, time, interval: Duration::ZERO },
            async |step| {
                let slot = slot_of_number(slots, step);
                let response = self.session.pool.delete(&slot.path).await?;
                slot.set_version(None);
                Ok(response.len() as u64)
            },
        )
        .await
    }

    async fn repeat(&self, operation: Operation, clients: usize, slots: &[Slot]) -> Outcome {
        let (pool, sample, bound) = (self.session.pool, self.sample, self.session.bound);
        // An object has one writer at a time; few objects exist if the time limit ended creation.
        let clients = clients.min(slots.len());
        match operation {
            Operation::Get => {
                let get = async |step| pool.drain(&slot_of_worker(slots, clients, step).path).await;
                closed_loop(clients, bound, get).await
            }
            Operation::List => {
                let count = (bound.count / OPERATIONS_PER_LIST).max(2 * clients as u64);
                let list = async |_| pool.drain(&sample.collection).await;
                closed_loop(clients, Bound { count, ..bound }, list).await
            }
            Operation::Update => {
                let update = async |step| {
                    let slot = slot_of_worker(slots, clients, step);
                    let version = slot.version();
                    let mark = self.session.next_mark();
                    let body = sample.body(&slot.name, version.as_deref(), mark);
                    slot.write(self, Method::PUT, &slot.path, JSON, body).await
                };
                closed_loop(clients, bound, update).await
            }
            _ => {
                let patch = async |step| {
                    let slot = slot_of_worker(slots, clients, step);
                    let body = sample.patch(self.session.next_mark());
                    slot.write(self, Method::PATCH, &slot.path, MERGE_PATCH, body).await
                };
                closed_loop(clients, bound, patch).await
            }
        }
    }

    /// Deletes without measuring and without a time limit.
    async fn delete_unmeasured(&self, slots: Vec<Slot>) -> Result<()> {
        self.session.progress.set_message(format!("deleting {}", self.sample.resource));
        require_success(&self.delete(UNMEASURED_CLIENTS, &slots, Duration::MAX).await)
    }
}

impl Slot {
    fn exists(&self) -> bool {
        self.version().is_some()
    }

    fn version(&self) -> Option<String> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_version(&self, version: Option<String>) {
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// Sends the object and stores its new resource version.
    async fn write(
        &self,
        workload: &Workload<'_>,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: String,
    ) -> Result<u64> {
        let response = workload.session.pool.call(method, path, content_type, body).await?;
        self.set_version(Some(resource_version(&response)?));
        Ok(response.len() as u64)
    }
}

/// The object of an operation's number.
fn slot_of_number(slots: &[Slot], step: Step) -> &Slot {
    &slots[usize::try_from(step.number).expect("a number below the count of slots")]
}

/// The object of a client's iteration. Each client uses a separate set of objects in rotation.
fn slot_of_worker(slots: &[Slot], workers: usize, step: Step) -> &Slot {
    let own = (slots.len() - step.worker).div_ceil(workers);
    &slots[step.worker + workers * (step.iteration % own)]
}

/// Fails if an operation that is not measured failed.
fn require_success(outcome: &Outcome) -> Result<()> {
    match outcome.failures.first() {
        Some(failure) => bail!("{failure}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn clients_share_no_object_and_use_all_of_them() {
        let slots: Vec<Slot> = (0..10)
            .map(|number| Slot {
                name: number.to_string(),
                path: String::new(),
                version: Mutex::default(),
            })
            .collect();
        for workers in [1, 3, 4, 10] {
            let mut all = BTreeSet::new();
            for worker in 0..workers {
                let of = |iteration| {
                    let step = Step { worker, iteration, number: 0 };
                    slot_of_worker(&slots, workers, step).name.clone()
                };
                let own: BTreeSet<String> = (0..20).map(of).collect();
                assert!(all.is_disjoint(&own), "{workers} workers");
                all.extend(own);
            }
            assert_eq!(all.len(), slots.len(), "{workers} workers");
        }
    }
}
