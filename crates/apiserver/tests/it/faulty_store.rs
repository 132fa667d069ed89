//! [`FaultyStore`]: a store in memory with a short history, and with the faults of a store behind a
//! network or on a failing disk.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future, stream};
use tokio::sync::watch;

use keel::{Clock, Tasks};
use machinery::Value;
use store::conformance::Fixture;
use store::{
    BoxFuture, Engine, Error, Event, Expect, Memory, Options, Page, Record, Revision, Store, Watch,
};

/// The number of events in the history.
pub(crate) const HISTORY: usize = 64;

/// See the [module documentation](self).
pub(crate) struct FaultyStore {
    inner: Arc<Engine>,
    state: watch::Sender<FaultyStoreState>,
    /// The keys of the writes that were refused by a failed disk.
    refused: Mutex<Vec<String>>,
}

/// A fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Lists are not answered.
    LateLists,
    /// Requests to open a watch are not answered.
    LateWatches,
    /// Open watches deliver nothing.
    LateEvents,
    /// Open watches end, and no other one can be opened.
    NoWatches,
    /// Open watches end, and all requests fail.
    Disconnected,
    /// The disk has failed: writes and compactions are refused.
    Broken,
}

#[derive(Clone, Copy, Default)]
struct FaultyStoreState {
    fault: Option<Fault>,
    /// The number of times that the open watches were ended.
    ended_watches: u64,
}

impl FaultyStore {
    pub(crate) fn open(clock: &Clock, tasks: &Tasks) -> Arc<Self> {
        let options = Options { history_events: HISTORY, ..Options::default() };
        Self::open_with(options, clock, tasks)
    }

    pub(crate) fn open_with(options: Options, clock: &Clock, tasks: &Tasks) -> Arc<Self> {
        let inner = Memory::open(options, clock, tasks);
        Arc::new(Self { inner, state: watch::Sender::default(), refused: Mutex::default() })
    }

    /// Begins a fault, and ends the one before it.
    pub(crate) fn set_fault(&self, fault: Fault) {
        self.state.send_modify(|state| {
            let ends_watches = matches!(fault, Fault::Disconnected | Fault::NoWatches);
            state.ended_watches += u64::from(ends_watches);
            state.fault = Some(fault);
        });
    }

    /// Ends the present fault.
    pub(crate) fn end_fault(&self) {
        self.state.send_modify(|state| state.fault = None);
    }

    fn has(&self, fault: Fault) -> bool {
        self.state.borrow().fault == Some(fault)
    }

    /// Waits until the present fault is not `fault`.
    async fn until_end_of(&self, fault: Fault) {
        let _ = self.state.subscribe().wait_for(|state| state.fault != Some(fault)).await;
    }

    /// The store without its faults, as another API server sees it.
    pub(crate) fn without_faults(&self) -> &Engine {
        &self.inner
    }

    /// Waits until a failed disk has refused a write to `key`.
    pub(crate) async fn until_refused(&self, key: &str) {
        while !self.refused.lock().unwrap().iter().any(|it| it == key) {
            tokio::task::yield_now().await;
        }
    }

    /// Changes a stored object, also while requests fail.
    pub(crate) async fn edit(&self, key: &str, edit: impl FnOnce(&mut Value)) {
        let record = self.inner.get(key).await.unwrap().unwrap();
        let mut object = serde_json::from_slice(&record.value).unwrap();
        edit(&mut object);
        let value = object.to_string().into();
        self.inner.put(key, value, Expect::At(record.modified), None).await.unwrap();
    }

    /// Stores a config map, also while requests fail.
    pub(crate) async fn put_map(&self, name: &str) -> Revision {
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}}}}"#
        );
        let key = format!("/registry/configmaps/default/{name}");
        self.inner.put(&key, value.into(), Expect::Any, None).await.unwrap().modified
    }

    /// Stores `count` config maps without a pause in which another task could run, as one commit of
    /// a store with a disk does.
    pub(crate) async fn put_at_once(&self, count: usize) {
        for index in 0..count {
            self.put_map(&format!("bulk-{index:04}")).await;
        }
    }

    fn check_connection(&self) -> Result<(), Error> {
        if self.has(Fault::Disconnected) { Err(unavailable()) } else { Ok(()) }
    }

    fn check_disk(&self) -> Result<(), Error> {
        if self.has(Fault::Broken) {
            return Err(Error::Broken(Arc::new(io::Error::other("the disk lost a page"))));
        }
        self.check_connection()
    }

    /// Ends a watch when the connection is lost, and holds back its responses while events are late.
    fn with_faults(&self, watch: Watch) -> Watch {
        let mut state = self.state.subscribe();
        let ended_before = state.borrow().ended_watches;
        let delivery = state.clone();
        let delivered = watch.then(move |response| {
            let mut delivery = delivery.clone();
            async move {
                let _ = delivery.wait_for(|state| state.fault != Some(Fault::LateEvents)).await;
                response
            }
        });
        let ended = async move {
            let is_ended = |state: &FaultyStoreState| state.ended_watches > ended_before;
            if state.wait_for(is_ended).await.is_err() {
                future::pending::<()>().await;
            }
        };
        let lost = stream::once(future::ready(Err(unavailable())));
        Box::pin(delivered.take_until(ended.boxed()).chain(lost))
    }
}

fn unavailable() -> Error {
    Error::Unavailable(Arc::new(io::ErrorKind::ConnectionReset.into()))
}

fn fail<T: Send + 'static>(error: Error) -> BoxFuture<'static, Result<T, Error>> {
    Box::pin(future::ready(Err(error)))
}

impl Store for FaultyStore {
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>> {
        match self.check_connection() {
            Ok(()) => self.inner.get(key),
            Err(error) => fail(error),
        }
    }

    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
        ttl: Option<Duration>,
    ) -> BoxFuture<'_, Result<Arc<Record>, Error>> {
        match self.check_disk() {
            Ok(()) => self.inner.put(key, value, expect, ttl),
            Err(error) => {
                self.refused.lock().unwrap().push(key.to_owned());
                fail(error)
            }
        }
    }

    fn delete(&self, key: &str, expect: Expect) -> BoxFuture<'_, Result<Event, Error>> {
        match self.check_connection() {
            Ok(()) => self.inner.delete(key, expect),
            Err(error) => fail(error),
        }
    }

    fn range(
        &self,
        prefix: &str,
        start: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        let (prefix, start) = (prefix.to_owned(), start.map(str::to_owned));
        Box::pin(async move {
            self.until_end_of(Fault::LateLists).await;
            self.check_connection()?;
            self.inner.range(&prefix, start.as_deref(), limit, at).await
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>> {
        let prefix = prefix.to_owned();
        Box::pin(async move {
            self.until_end_of(Fault::LateWatches).await;
            self.check_connection()?;
            if self.has(Fault::NoWatches) {
                return Err(unavailable());
            }
            Ok(self.with_faults(self.inner.watch(&prefix, after).await?))
        })
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>> {
        match self.check_connection() {
            Ok(()) => self.inner.request_progress(),
            Err(error) => fail(error),
        }
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        match self.check_connection() {
            Ok(()) => self.inner.revision(),
            Err(error) => fail(error),
        }
    }

    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>> {
        match self.check_disk() {
            Ok(()) => self.inner.check_health(timeout),
            Err(error) => fail(error),
        }
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>> {
        match self.check_disk() {
            Ok(()) => self.inner.compact(upto),
            Err(error) => fail(error),
        }
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.close()
    }
}

/// Without a fault, the store conforms to the trait.
fn faultless() -> Fixture {
    Fixture::with_manual_clock(|clock, tasks| {
        (FaultyStore::open_with(Options::default(), clock, tasks), ())
    })
}

store::conformance!(conformance, faultless());
