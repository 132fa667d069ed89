//! [`LogWriter`]: writes the events of requests that wait for them to a log, those of concurrent
//! requests with one write.
//!
//! A write costs about twice as much as the encoding of its events. So a request adds its lines to the
//! current group and waits; the task of the writer lets the other requests that can run do the
//! same, writes the group, and tells the result to all of them. After many groups of one request each,
//! requests write for themselves until two writes meet.
//!
//! However many requests wait for a slow disk, they block two threads at most: that of the task, and
//! that of one request that writes for itself.

use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::log_backend::LogBackend;
use keel::Tasks;

/// Events that are larger are written one by one, since their lines would be copied.
const MAX_GROUPED: usize = 64 << 10;

/// The number of groups of one request after which requests write for themselves.
const LONE_GROUPS: u32 = 64;

/// How often the task lets other requests run before it writes a group.
const MAX_YIELDS: usize = 4;

/// The capacity that a group keeps for the next one.
const MAX_KEPT: usize = 256 << 10;

/// See the [module documentation](self).
pub(super) struct LogWriter(Arc<Shared>);

struct Shared {
    log: LogBackend,
    current: Mutex<Current>,
    /// Notified when a group has its first lines.
    begun: Notify,
    /// Whether requests write for themselves.
    are_alone: AtomicBool,
}

#[derive(Default)]
struct Current {
    lines: Vec<u8>,
    large: Vec<LargeEvent>,
    /// The number of requests in the group.
    requests: usize,
    /// The number of groups of one request since one with more.
    lone_groups: u32,
    group: Arc<Group>,
    /// Whether the task has ended, so that each request writes for itself.
    is_stopped: bool,
}

/// An event that is written by itself, by the task.
struct LargeEvent {
    event: Bytes,
    ending: Ending,
}

/// The result of one write, for the requests that wait for it.
#[derive(Default)]
struct Group {
    result: OnceLock<Result<(), String>>,
    ended: Notify,
}

impl LogWriter {
    /// Starts the task.
    pub(super) fn start(log: LogBackend, tasks: &Tasks) -> Self {
        let shared = Arc::new(Shared {
            log,
            current: Mutex::default(),
            begun: Notify::new(),
            are_alone: AtomicBool::new(true),
        });
        let task = WriterTask(Arc::clone(&shared));
        tasks.spawn("audit-log", task.run(tasks.clone()));
        Self(shared)
    }

    /// Writes an event, and waits until it is written. The error is a message.
    ///
    /// The event is written even if the future is dropped.
    pub(super) async fn write(&self, event: &Bytes) -> Result<(), String> {
        let group = if event.len() > MAX_GROUPED {
            self.0.add_large(event)
        } else {
            let lines = self.0.log.lines(event)?;
            if self.0.are_alone.load(Relaxed) {
                if let Some(result) = self.0.log.try_write_lines(&lines) {
                    return result;
                }
                self.0.are_alone.store(false, Relaxed);
            }
            self.0.add(&lines)
        };
        let Some(group) = group else { return self.write_now(event) };
        loop {
            // Created before the result is read, so that no notification is missed.
            let ended = group.ended.notified();
            if let Some(result) = group.result.get() {
                return result.clone();
            }
            ended.await;
        }
    }

    /// Writes an event by itself, on this thread.
    pub(super) fn write_now(&self, event: &Bytes) -> Result<(), String> {
        self.0.log.write(std::slice::from_ref(event))
    }
}

impl Shared {
    /// Adds lines to the current group; None if nobody would write it.
    fn add(&self, lines: &[u8]) -> Option<Arc<Group>> {
        let mut current = self.lock();
        if current.is_stopped {
            return None;
        }
        current.lines.extend_from_slice(lines);
        let group = Arc::clone(&current.group);
        self.count_request(current);
        Some(group)
    }

    /// Adds an event that is written by itself; None if nobody would write it.
    fn add_large(&self, event: &Bytes) -> Option<Arc<Group>> {
        let mut current = self.lock();
        if current.is_stopped {
            return None;
        }
        let group = Arc::<Group>::default();
        let ending = Ending(Arc::clone(&group));
        current.large.push(LargeEvent { event: event.clone(), ending });
        self.count_request(current);
        Some(group)
    }

    /// Counts a request that was added, and wakes the task for the first one.
    fn count_request(&self, mut current: MutexGuard<'_, Current>) {
        current.requests += 1;
        let is_first = current.requests == 1;
        drop(current);
        if is_first {
            self.begun.notify_one();
        }
    }

    /// Writes the current group, and the large events. `spare` is an empty buffer for the next group.
    fn write_group(&self, spare: &mut Vec<u8>) {
        let (group, large) = {
            let mut current = self.lock();
            mem::swap(&mut current.lines, spare);
            let is_lone = mem::take(&mut current.requests) == 1;
            current.lone_groups = if is_lone { current.lone_groups.saturating_add(1) } else { 0 };
            self.are_alone.store(current.lone_groups >= LONE_GROUPS, Relaxed);
            (Ending(mem::take(&mut current.group)), mem::take(&mut current.large))
        };
        if !spare.is_empty() {
            group.end(self.log.write_lines(spare));
        }
        drop(group);
        spare.clear();
        spare.shrink_to(MAX_KEPT);
        for LargeEvent { event, ending } in large {
            ending.end(self.log.write(&[event]));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group that is not written yet. Its requests have a result also if the write panics.
struct Ending(Arc<Group>);

impl Ending {
    fn end(&self, result: Result<(), String>) {
        // Nobody else sets the result before.
        let _ = self.0.result.set(result);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.result.set(Err("the write was aborted".to_owned()));
        self.0.ended.notify_waiters();
    }
}

/// The task that writes groups. What waits when it ends is written.
struct WriterTask(Arc<Shared>);

impl WriterTask {
    async fn run(self, tasks: Tasks) {
        let mut spare = Vec::new();
        let shutdown = tasks.shutdown();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = self.0.begun.notified() => {}
                () = &mut shutdown => return,
            }
            self.let_others_join().await;
            self.0.write_group(&mut spare);
        }
    }
}

impl WriterTask {
    /// Lets the requests that can run add their lines, again while that makes the group larger.
    async fn let_others_join(&self) {
        let mut requests = 0;
        for _ in 0..MAX_YIELDS {
            let joined = self.0.lock().requests;
            if joined == requests {
                return;
            }
            requests = joined;
            yield_now().await;
        }
    }
}

impl Drop for WriterTask {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.write_group(&mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::super::backend::Delivery;
    use super::super::log_backend::{LogFormat, LogSettings};
    use super::*;
    use keel::Clock;

    struct Fixture {
        directory: tempfile::TempDir,
        writer: LogWriter,
        tasks: Tasks,
    }

    impl Fixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let settings = LogSettings {
                path: directory.path().join("audit.log"),
                max_size: 0,
                max_backups: 0,
                max_age: 0,
                format: LogFormat::Json,
                delivery: Delivery::of_log(),
            };
            let tasks = Tasks::new();
            let log = LogBackend::open(&settings, &Clock::system()).unwrap();
            Self { directory, writer: LogWriter::start(log, &tasks), tasks }
        }

        /// As after two writes that met.
        fn expect_others(&self) {
            self.writer.0.are_alone.store(false, Relaxed);
        }

        fn lines(&self) -> Vec<String> {
            let text = fs::read_to_string(self.directory.path().join("audit.log")).unwrap();
            text.lines().map(ToOwned::to_owned).collect()
        }
    }

    fn large_line(letter: char) -> Bytes {
        format!("{}\n", letter.to_string().repeat(MAX_GROUPED)).into()
    }

    fn line(number: usize) -> Bytes {
        format!("{number}\n").into()
    }

    #[tokio::test]
    async fn concurrent_events_are_all_written_before_their_requests_go_on() {
        let fixture = Fixture::new();
        fixture.expect_others();
        let writes = (0..100).map(async |number| {
            fixture.writer.write(&line(number)).await.unwrap();
            assert!(fixture.lines().contains(&number.to_string()));
        });
        join_all(writes).await;
        assert_eq!(fixture.lines().len(), 100);
    }

    #[tokio::test]
    async fn an_event_without_others_is_written_at_once() {
        let fixture = Fixture::new();
        assert!(fixture.writer.write(&line(1)).now_or_never().is_some());
        fixture.expect_others();
        assert!(fixture.writer.write(&line(2)).now_or_never().is_none());
        for _ in 0..=LONE_GROUPS {
            fixture.writer.write(&line(3)).await.unwrap();
        }
        assert!(fixture.writer.write(&line(4)).now_or_never().is_some());
        let lines = fixture.lines();
        assert!(
            lines.starts_with(&["1".to_owned(), "2".to_owned()])
                && lines.ends_with(&["4".to_owned()])
        );
    }

    #[tokio::test]
    async fn an_event_whose_request_is_dropped_is_written() {
        let fixture = Fixture::new();
        fixture.expect_others();
        for event in [line(1), large_line('l')] {
            let mut write = Box::pin(fixture.writer.write(&event));
            assert!((&mut write).now_or_never().is_none());
            drop(write);
        }
        fixture.writer.write(&line(2)).await.unwrap();
        fixture.tasks.stop(Duration::from_mins(1)).await.unwrap();
        let mut lines = fixture.lines();
        lines.sort_by_key(String::len);
        assert_eq!((lines.len(), &lines[..2]), (3, &["1".to_owned(), "2".to_owned()][..]));
    }

    #[tokio::test]
    async fn large_events_are_written_by_the_task_and_not_on_the_threads_of_their_requests() {
        let fixture = Fixture::new();
        let events: Vec<_> = ('a'..='h').map(large_line).collect();
        let mut writes: Vec<_> =
            events.iter().map(|event| Box::pin(fixture.writer.write(event))).collect();
        for write in &mut writes {
            assert!(write.now_or_never().is_none(), "the task writes");
        }
        assert_eq!(fixture.lines().len(), 0);
        for result in join_all(writes).await {
            result.unwrap();
        }
        assert_eq!(fixture.lines().len(), 8);
    }

    #[tokio::test]
    async fn events_at_and_after_the_stop_are_written() {
        let fixture = Fixture::new();
        fixture.expect_others();
        let event = line(1);
        let mut write = Box::pin(fixture.writer.write(&event));
        assert!((&mut write).now_or_never().is_none());
        fixture.tasks.stop(Duration::from_mins(1)).await.unwrap();
        write.await.unwrap();
        fixture.writer.write(&line(2)).await.unwrap();
        assert_eq!(fixture.lines(), ["1", "2"]);
    }
}
