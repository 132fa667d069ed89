//! [`FaultyStore`]: a store in memory that keeps little history, and fails when a test says so.

use bytes::Bytes;
use keel::{Clock, Tasks};
use machinery::Value;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::conformance::Fixture;
use store::{
    BoxFuture, Engine, Error, Event, Expect, Memory, Options, Page, Record, Revision, Store, Watch,
};
use tokio::sync::watch;

/// How many events it keeps.
pub(crate) const HISTORY: usize = 64;

/// See the [module documentation](self).
pub(crate) struct FaultyStore {
    inner: Arc<Engine>,
    /// Whether lists are answered; those that are not wait.
    lists: watch::Sender<bool>,
    /// Whether the disk has failed.
    broken: AtomicBool,
    /// The keys of the writes that were refused because of that.
    refused: Mutex<Vec<String>>,
}

impl FaultyStore {
    pub(crate) fn open(clock: &Clock, tasks: &Tasks) -> Arc<Self> {
        let options = Options { history_events: HISTORY, ..Options::default() };
        Self::open_with(options, clock, tasks)
    }

    fn open_with(options: Options, clock: &Clock, tasks: &Tasks) -> Arc<Self> {
        let inner = Memory::open(options, clock, tasks);
        Arc::new(Self {
            inner,
            lists: watch::Sender::new(true),
            broken: AtomicBool::new(false),
            refused: Mutex::default(),
        })
    }

    /// Answers lists, or lets them wait.
    pub(crate) fn set_lists(&self, answered: bool) {
        self.lists.send_replace(answered);
    }

    /// Refuses writes and compactions from now on.
    pub(crate) fn fail(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Accepts them again.
    pub(crate) fn heal(&self) {
        self.broken.store(false, Ordering::Relaxed);
    }

    fn check_disk(&self) -> Result<(), Error> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(Error::Broken(Arc::new(io::Error::other("the disk lost a page"))));
        }
        Ok(())
    }

    /// Waits until a write to `key` was refused.
    pub(crate) async fn until_refused(&self, key: &str) {
        while !self.refused.lock().unwrap().iter().any(|it| it == key) {
            tokio::task::yield_now().await;
        }
    }

    /// Changes a stored object behind the server's back, also while writes are refused.
    pub(crate) async fn edit(&self, key: &str, edit: impl FnOnce(&mut Value)) {
        let record = self.inner.get(key).await.unwrap().unwrap();
        let mut object = serde_json::from_slice(&record.value).unwrap();
        edit(&mut object);
        let value = object.to_string().into();
        self.inner.put(key, value, Expect::At(record.modified), None).await.unwrap();
    }

    /// Writes `count` config maps without a pause in which another task could run, as one commit
    /// of a store with a disk does.
    pub(crate) async fn put_at_once(&self, count: usize) {
        for index in 0..count {
            let name = format!("bulk-{index:04}");
            let value = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}}}}"#
            );
            let key = format!("/registry/configmaps/default/{name}");
            self.put(&key, value.into(), Expect::Any, None).await.unwrap();
        }
    }
}

impl Store for FaultyStore {
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>> {
        self.inner.get(key)
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
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }

    fn delete(&self, key: &str, expect: Expect) -> BoxFuture<'_, Result<Event, Error>> {
        self.inner.delete(key, expect)
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
            let _ = self.lists.subscribe().wait_for(|answered| *answered).await;
            self.inner.range(&prefix, start.as_deref(), limit, at).await
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>> {
        self.inner.watch(prefix, after)
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.request_progress()
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.inner.revision()
    }

    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>> {
        match self.check_disk() {
            Ok(()) => self.inner.check_health(timeout),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>> {
        match self.check_disk() {
            Ok(()) => self.inner.compact(upto),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.close()
    }
}

/// Without a fault, it is a store like any other.
fn faultless() -> Fixture {
    Fixture::with_manual_clock(|clock, tasks| {
        (FaultyStore::open_with(Options::default(), clock, tasks), ())
    })
}

store::conformance!(conformance, faultless());
