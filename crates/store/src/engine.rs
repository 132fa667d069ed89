//! [`Engine`]: the store itself, whatever lies below it: reads from the published state, writes
//! through the one writer.
//!
//! Without a journal a write is done on the spot, under a lock. With one it is queued for the
//! commit thread, which takes all that waits and lets it share one fsync.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use keel::{Clock, Moment, Tasks};
use tokio::sync::{mpsc, oneshot};

use crate::{
    BoxFuture, Error, Event, Expect, Page, Record, Revision, Store, Watch, expiry,
    history::Bounds,
    maintenance,
    shared::Shared,
    watch::Cursor,
    writer::{Request, Writer},
};

/// How many writes wait for the commit thread; who comes later waits for a place in the queue.
const QUEUE: usize = 4096;

/// How many of them share one commit.
const BATCH: usize = 512;

/// How much a store remembers.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many events are kept for watches and for reads of the past.
    pub history_events: usize,
    /// How many bytes of replaced values these events may keep in memory.
    pub history_bytes: usize,
    /// How many bytes of writes the log of a durable store takes before they are folded into its
    /// database. Twice as much is kept on the disk, and read after a crash.
    pub log_bytes: u64,
    /// How many bytes of the disk a durable store keeps in reserve, for deletions when the disk is
    /// full. It should have room for all that the log holds.
    pub reserve_bytes: u64,
    /// How many bytes all records may have together.
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

/// A store; made by [`Memory::open`](crate::Memory::open) or
/// [`Embedded::open`](crate::Embedded::open).
pub struct Engine {
    shared: Arc<Shared>,
    door: Door,
    clock: Clock,
}

/// The way to the writer.
enum Door {
    /// Never locked across an await.
    Inline(Box<Mutex<Writer>>),
    Queue(mpsc::Sender<Queued>),
}

/// A command for the commit thread, and when it was sent.
struct Queued {
    command: Command,
    sent: Moment,
}

/// What the commit thread is asked to do.
enum Command {
    Write(Request, Answer<Event>),
    Sweep(usize, Answer<usize>),
    Compact(Revision, Answer<()>),
    Maintain(Answer<()>),
    Close(Answer<()>),
}

type Answer<T> = oneshot::Sender<Result<T, Error>>;

impl Engine {
    /// An engine that writes on the spot.
    pub(crate) fn inline(
        shared: Arc<Shared>,
        writer: Writer,
        clock: &Clock,
        tasks: &Tasks,
    ) -> Arc<Self> {
        let door = Door::Inline(Box::new(Mutex::new(writer)));
        let engine = Arc::new(Self { shared, door, clock: clock.clone() });
        engine.keep(clock, tasks);
        engine
    }

    /// An engine that writes through a commit thread.
    pub(crate) fn threaded(
        shared: Arc<Shared>,
        writer: Writer,
        clock: &Clock,
        tasks: &Tasks,
    ) -> io::Result<Arc<Self>> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let pending = Arc::clone(&shared);
        tasks.spawn_thread("commit", move || run(&pending, writer, receiver))?;
        let engine = Arc::new(Self { shared, door: Door::Queue(sender), clock: clock.clone() });
        engine.keep(clock, tasks);
        let kept = maintenance::keep(Arc::clone(&engine), clock.clone(), tasks.shutdown());
        tasks.spawn("maintain", kept);
        Ok(engine)
    }

    fn keep(self: &Arc<Self>, clock: &Clock, tasks: &Tasks) {
        let next_expiry = self.shared.next_expiry();
        let shutdown = tasks.shutdown();
        tasks.spawn("sweep", expiry::keep(Arc::clone(self), next_expiry, clock.clone(), shutdown));
    }

    async fn write(&self, request: Request) -> Result<Event, Error> {
        match &self.door {
            Door::Inline(writer) => {
                let mut outcomes = lock(writer).commit(&[request]);
                outcomes.pop().expect("one request has one outcome")
            }
            Door::Queue(queue) => self.ask(queue, |answer| Command::Write(request, answer)).await,
        }
    }

    /// Sends a command to the commit thread and waits for its answer.
    async fn ask<T>(
        &self,
        queue: &mpsc::Sender<Queued>,
        command: impl FnOnce(Answer<T>) -> Command,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        // Before the wait for a place in the queue, which is part of the command's age.
        let sent = self.clock.moment();
        queue.send(Queued { command: command(answer), sent }).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Does what is due from time to time. A store without a journal has nothing of the kind.
    pub(crate) async fn maintain(&self) -> Result<(), Error> {
        match &self.door {
            Door::Inline(_) => Ok(()),
            Door::Queue(queue) => self.ask(queue, Command::Maintain).await,
        }
    }

    /// The error with which all writes are refused until the store is opened again.
    fn check_writable(&self) -> Result<(), Error> {
        if let Some(failure) = self.shared.failure() {
            return Err(failure.clone());
        }
        match &self.door {
            // The commit thread is gone.
            Door::Queue(queue) if queue.is_closed() => Err(Error::Closed),
            _ => self.shared.read().map(|_| ()),
        }
    }

    /// Fails if a write is not finished although it was sent before `timeout`: the disk hangs.
    fn check_pending(&self, timeout: Duration) -> Result<(), Error> {
        let Some(sent) = self.shared.oldest_pending() else { return Ok(()) };
        let age = self.clock.passed_since(&sent);
        if age < timeout {
            return Ok(());
        }
        let detail = format!("a write has not finished for {age:?}");
        Err(Error::Unavailable(Arc::new(io::Error::new(io::ErrorKind::TimedOut, detail))))
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.shared.read(), Err(Error::Closed))
    }

    /// Deletes up to `limit` expired records, and says how many there were.
    pub(crate) async fn sweep(&self, limit: usize) -> Result<usize, Error> {
        match &self.door {
            Door::Inline(writer) => lock(writer).sweep(limit),
            Door::Queue(queue) => self.ask(queue, |answer| Command::Sweep(limit, answer)).await,
        }
    }
}

fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commit thread: takes all that waits, commits it as one batch, answers, and again. While it
/// works on commands, `shared` knows when the oldest of them was sent: the queue is in that order.
fn run(shared: &Shared, mut writer: Writer, mut queue: mpsc::Receiver<Queued>) {
    let mut queued = Vec::with_capacity(BATCH);
    let mut batch = WriteBatch::default();
    loop {
        if queue.blocking_recv_many(&mut queued, BATCH) == 0 {
            close(&mut writer);
            return;
        }
        for Queued { command, sent } in queued.drain(..) {
            if let Command::Write(request, answer) = command {
                batch.push(request, answer, sent);
                continue;
            }
            // Anything else happens after the writes that were asked for before it.
            batch.commit(shared, &mut writer);
            shared.set_oldest_pending(Some(sent));
            match command {
                Command::Write(..) => {}
                Command::Sweep(limit, answer) => reply(answer, writer.sweep(limit)),
                Command::Compact(upto, answer) => reply(answer, writer.compact(upto)),
                Command::Maintain(answer) => reply(answer, writer.maintain()),
                Command::Close(answer) => {
                    let result = writer.close();
                    // With the writer, the lock on the directory is gone before anybody hears.
                    drop(writer);
                    reply(answer, result);
                    return;
                }
            }
        }
        batch.commit(shared, &mut writer);
        shared.set_oldest_pending(None);
    }
}

/// Writes that share one commit. The buffers are used again for the next batch.
#[derive(Default)]
struct WriteBatch {
    requests: Vec<Request>,
    answers: Vec<Answer<Event>>,
    /// When the first of them was sent.
    sent: Option<Moment>,
}

impl WriteBatch {
    fn push(&mut self, request: Request, answer: Answer<Event>, sent: Moment) {
        self.requests.push(request);
        self.answers.push(answer);
        self.sent.get_or_insert(sent);
    }

    /// Commits and answers what was pushed since the last call.
    fn commit(&mut self, shared: &Shared, writer: &mut Writer) {
        if self.requests.is_empty() {
            return;
        }
        shared.set_oldest_pending(self.sent.take());
        let outcomes = writer.commit(&self.requests);
        self.requests.clear();
        for (answer, outcome) in self.answers.drain(..).zip(outcomes) {
            reply(answer, outcome);
        }
    }
}

fn reply<T>(answer: Answer<T>, result: Result<T, Error>) {
    // Who no longer waits has given up on the answer, not on the write.
    let _ = answer.send(result);
}

fn close(writer: &mut Writer) {
    if let Err(error) = writer.close() {
        tracing::error!(error = error.with_causes(), "the store was not closed cleanly");
    }
}

impl Store for Engine {
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>> {
        let found = self.shared.read().map(|published| published.records.get(key).cloned());
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
            Ok(event.new.expect("a put leaves a record"))
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
        Box::pin(std::future::ready(self.shared.range(prefix, start, limit, at)))
    }

    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>> {
        let watch = Cursor::new(&self.shared, prefix, after).map(Cursor::into_watch);
        Box::pin(std::future::ready(watch))
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(std::future::ready(self.shared.request_progress()))
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        let revision = self.shared.read().map(|published| published.revision);
        Box::pin(std::future::ready(revision))
    }

    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>> {
        let health = self.check_writable().and_then(|()| self.check_pending(timeout));
        Box::pin(std::future::ready(health))
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.door {
                Door::Inline(writer) => lock(writer).compact(upto),
                Door::Queue(queue) => {
                    self.ask(queue, |answer| Command::Compact(upto, answer)).await
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            match &self.door {
                Door::Inline(writer) => lock(writer).close(),
                Door::Queue(queue) => match self.ask(queue, Command::Close).await {
                    Err(Error::Closed) => Ok(()),
                    result => result,
                },
            }
        })
    }
}
