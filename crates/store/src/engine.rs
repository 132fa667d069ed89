//! [`Engine`]: a store in this process, in memory or on disk. Reads use the published state; writes go
//! through one writer.
//!
//! Without a journal, a write is committed by the caller, under a lock. With a journal, it is queued
//! for the commit thread, which commits all queued writes with one fsync.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::history::Bounds;
use crate::state::StoreState;
use crate::watch::Cursor;
use crate::writer::{Request, Writer};
use crate::{
    BoxFuture, Error, Event, Expect, Page, Record, Revision, Store, Watch, expiration, maintenance,
};
use keel::{Clock, ClockInstant, Tasks};

/// The capacity of the queue of the commit thread. Later writes wait for a free place.
const QUEUE_CAPACITY: usize = 4096;

/// The largest number of writes in one commit.
const MAX_BATCH: usize = 512;

/// The limits of a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of events that are kept for watches and for reads of the past.
    pub history_events: usize,
    /// The size of the replaced values that these events keep in memory.
    pub history_bytes: usize,
    /// The size of the log of a durable store at which a checkpoint into its database begins. Twice
    /// as much is kept on the disk, and read after a crash.
    pub log_bytes: u64,
    /// The disk space that a durable store reserves for deletions on a full disk. It should be larger
    /// than the log.
    pub reserve_bytes: u64,
    /// The limit on the size of all records together.
    pub quota_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history_events: 100_000,
            history_bytes: 64 << 20,
            log_bytes: 8 << 20,
            reserve_bytes: 24 << 20,
            quota_bytes: 8 << 30,
        }
    }
}

impl Options {
    pub(crate) fn bounds(self) -> Bounds {
        Bounds { events: self.history_events, bytes: self.history_bytes }
    }
}

/// A store; opened by [`Memory::open`](crate::Memory::open) or
/// [`Embedded::open`](crate::Embedded::open).
pub struct Engine {
    state: Arc<StoreState>,
    writer: WriterHandle,
    clock: Clock,
}

/// How writes reach the writer.
enum WriterHandle {
    /// Never locked across an await.
    Inline(Box<Mutex<Writer>>),
    Queue(mpsc::Sender<Queued>),
}

/// A command for the commit thread, and the time at which it was sent.
struct Queued {
    command: Command,
    sent: ClockInstant,
}

/// A command for the commit thread.
enum Command {
    Write(Request, ReplySender<Event>),
    DeleteExpired(usize, ReplySender<usize>),
    Compact(Revision, ReplySender<()>),
    Maintain(ReplySender<()>),
    Close(ReplySender<()>),
}

type ReplySender<T> = oneshot::Sender<Result<T, Error>>;

impl Engine {
    /// An engine whose callers commit their writes.
    pub(crate) fn inline(
        state: Arc<StoreState>,
        writer: Writer,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Arc<Self> {
        let writer = WriterHandle::Inline(Box::new(Mutex::new(writer)));
        let engine = Arc::new(Self { state, writer, clock: clock.clone() });
        engine.spawn_expiration(clock, tasks);
        engine
    }

    /// An engine with a commit thread.
    pub(crate) fn threaded(
        state: Arc<StoreState>,
        writer: Writer,
        clock: &Clock,
        tasks: &Tasks,
    ) -> io::Result<Arc<Self>> {
        let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
        let pending = Arc::clone(&state);
        tasks.spawn_thread("commit", move || run_commit_thread(&pending, writer, receiver))?;
        let engine =
            Arc::new(Self { state, writer: WriterHandle::Queue(sender), clock: clock.clone() });
        engine.spawn_expiration(clock, tasks);
        let maintenance = maintenance::run(Arc::clone(&engine), clock.clone(), tasks.shutdown());
        tasks.spawn("maintain", maintenance);
        Ok(engine)
    }

    fn spawn_expiration(self: &Arc<Self>, clock: &Clock, tasks: &Tasks) {
        let next_expiry = self.state.next_expiry();
        let shutdown = tasks.shutdown();
        tasks.spawn(
            "expiration",
            expiration::run(Arc::clone(self), next_expiry, clock.clone(), shutdown),
        );
    }

    async fn write(&self, request: Request) -> Result<Event, Error> {
        match &self.writer {
            WriterHandle::Inline(writer) => {
                let mut outcomes = lock(writer).commit(&[request]);
                outcomes.pop().expect("one request has one outcome")
            }
            WriterHandle::Queue(queue) => {
                self.send(queue, |reply_to| Command::Write(request, reply_to)).await
            }
        }
    }

    /// Sends a command to the commit thread and waits for its reply.
    async fn send<T>(
        &self,
        queue: &mpsc::Sender<Queued>,
        command: impl FnOnce(ReplySender<T>) -> Command,
    ) -> Result<T, Error> {
        let (reply_to, replied) = oneshot::channel();
        // The age of a command includes its wait for a place in the queue.
        let sent = self.clock.instant();
        queue.send(Queued { command: command(reply_to), sent }).await.map_err(|_| Error::Closed)?;
        replied.await.map_err(|_| Error::Closed)?
    }

    /// Runs the maintenance of the journal, if there is one.
    pub(crate) async fn maintain(&self) -> Result<(), Error> {
        match &self.writer {
            WriterHandle::Inline(_) => Ok(()),
            WriterHandle::Queue(queue) => self.send(queue, Command::Maintain).await,
        }
    }

    /// The error with which all writes are refused until the store is opened again.
    fn check_writable(&self) -> Result<(), Error> {
        if let Some(failure) = self.state.failure() {
            return Err(failure.clone());
        }
        match &self.writer {
            // The commit thread has ended.
            WriterHandle::Queue(queue) if queue.is_closed() => Err(Error::Closed),
            _ => self.state.read().map(|_| ()),
        }
    }

    /// Fails if a write is not finished although it was sent before `timeout`: the disk hangs.
    fn check_pending(&self, timeout: Duration) -> Result<(), Error> {
        let Some(sent) = self.state.oldest_pending() else { return Ok(()) };
        let age = self.clock.elapsed_since(&sent);
        if age < timeout {
            return Ok(());
        }
        let detail = format!("a write has not finished for {age:?}");
        Err(Error::Unavailable(Arc::new(io::Error::new(io::ErrorKind::TimedOut, detail))))
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state.read(), Err(Error::Closed))
    }

    /// Deletes up to `limit` expired records, and returns their number.
    pub(crate) async fn delete_expired(&self, limit: usize) -> Result<usize, Error> {
        match &self.writer {
            WriterHandle::Inline(writer) => lock(writer).delete_expired(limit),
            WriterHandle::Queue(queue) => {
                self.send(queue, |reply_to| Command::DeleteExpired(limit, reply_to)).await
            }
        }
    }
}

fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commit thread: commits all queued writes as one batch, replies, and repeats. `state` has the
/// time at which the oldest unfinished command was sent.
fn run_commit_thread(state: &StoreState, mut writer: Writer, mut queue: mpsc::Receiver<Queued>) {
    let mut queued = Vec::with_capacity(MAX_BATCH);
    let mut batch = WriteBatch::default();
    loop {
        if queue.blocking_recv_many(&mut queued, MAX_BATCH) == 0 {
            close(&mut writer);
            return;
        }
        for Queued { command, sent } in queued.drain(..) {
            if let Command::Write(request, reply_to) = command {
                batch.push(request, reply_to, sent);
                continue;
            }
            // Other commands are run after the writes that were sent before them.
            batch.commit(state, &mut writer);
            state.set_oldest_pending(Some(sent));
            match command {
                Command::Write(..) => {}
                Command::DeleteExpired(limit, reply_to) => {
                    reply(reply_to, writer.delete_expired(limit));
                }
                Command::Compact(upto, reply_to) => reply(reply_to, writer.compact(upto)),
                Command::Maintain(reply_to) => reply(reply_to, writer.maintain()),
                Command::Close(reply_to) => {
                    let result = writer.close();
                    // The lock on the directory is released before the reply.
                    drop(writer);
                    reply(reply_to, result);
                    return;
                }
            }
        }
        batch.commit(state, &mut writer);
        state.set_oldest_pending(None);
    }
}

/// The writes of one commit. The buffers are reused.
#[derive(Default)]
struct WriteBatch {
    requests: Vec<Request>,
    replies: Vec<ReplySender<Event>>,
    /// The time at which the first of them was sent.
    sent: Option<ClockInstant>,
}

impl WriteBatch {
    fn push(&mut self, request: Request, reply_to: ReplySender<Event>, sent: ClockInstant) {
        self.requests.push(request);
        self.replies.push(reply_to);
        self.sent.get_or_insert(sent);
    }

    /// Commits the writes since the last call, and replies to them.
    fn commit(&mut self, state: &StoreState, writer: &mut Writer) {
        if self.requests.is_empty() {
            return;
        }
        state.set_oldest_pending(self.sent.take());
        let outcomes = writer.commit(&self.requests);
        self.requests.clear();
        for (reply_to, outcome) in self.replies.drain(..).zip(outcomes) {
            reply(reply_to, outcome);
        }
    }
}

fn reply<T>(reply_to: ReplySender<T>, result: Result<T, Error>) {
    // The write happens also if the caller no longer waits for the reply.
    let _ = reply_to.send(result);
}

fn close(writer: &mut Writer) {
    if let Err(error) = writer.close() {
        tracing::error!(error = error.with_causes(), "the store was not closed cleanly");
    }
}

impl Store for Engine {
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>> {
        let found = self.state.read().map(|published| published.records.get(key).cloned());
        Box::pin(std::future::ready(found))
    }

    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
        ttl: Option<Duration>,
    ) -> BoxFuture<'_, Result<Arc<Record>, Error>> {
        let request = Request::Put { key: key.into(), value, expect, ttl };
        Box::pin(async move {
            let event = self.write(request).await?;
            Ok(event.new.expect("a put has a new record"))
        })
    }

    fn delete(&self, key: &str, expect: Expect) -> BoxFuture<'_, Result<Event, Error>> {
        Box::pin(self.write(Request::Delete { key: key.into(), expect }))
    }

    fn range(
        &self,
        prefix: &str,
        start: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        Box::pin(std::future::ready(self.state.range(prefix, start, limit, at)))
    }

    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>> {
        let watch = Cursor::new(&self.state, prefix, after).map(Cursor::into_watch);
        Box::pin(std::future::ready(watch))
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(self.state.request_progress()))
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        let revision = self.state.read().map(|published| published.revision);
        Box::pin(std::future::ready(revision))
    }

    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>> {
        let health = self.check_writable().and_then(|()| self.check_pending(timeout));
        Box::pin(std::future::ready(health))
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.writer {
                WriterHandle::Inline(writer) => lock(writer).compact(upto),
                WriterHandle::Queue(queue) => {
                    self.send(queue, |reply_to| Command::Compact(upto, reply_to)).await
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.writer {
                WriterHandle::Inline(writer) => lock(writer).close(),
                WriterHandle::Queue(queue) => match self.send(queue, Command::Close).await {
                    Err(Error::Closed) => Ok(()),
                    result => result,
                },
            }
        })
    }
}
