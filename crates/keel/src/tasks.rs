//! [`Tasks`]: groups of tasks. Each task has a name and a parent, and is joined at shutdown.
//!
//! ```text
//! plane ─┬─ store ─┬─ commit      plane.stop(…) stops all five and waits for them;
//!        │         └─ sweep       store.stop(…) stops and waits for two.
//!        └─ server ── listen
//! ```
//!
//! A task that panics is logged with its name, and [`Tasks::stop`] reports it. No other file
//! starts tasks or threads.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;
use std::{fmt, io, thread};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout_at};

use crate::thread_shares::{ThreadShare, WithinShare};

/// A group of tasks that are stopped together; clones refer to the same group.
#[derive(Clone)]
pub struct Tasks(Arc<Scope>);

struct Scope {
    /// The names from the root to this group, such as `plane/store`; empty at the root.
    path: String,
    /// The part of the runtime's threads in which the tasks are polled; all of them if there is none.
    threads: Option<Arc<ThreadShare>>,
    /// Keeps the groups between the root and this one alive.
    parent: Option<Arc<Scope>>,
    children: Mutex<Vec<Weak<Scope>>>,
    stopping: watch::Sender<bool>,
    running: watch::Sender<BTreeMap<u64, RunningTask>>,
    panicked: Mutex<Vec<String>>,
    started: AtomicU64,
}

struct RunningTask {
    name: String,
    /// `None` for a thread, which cannot be aborted, and for a task that is just being started.
    abort: Option<AbortHandle>,
}

/// A stop that was not clean.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(.running, .panicked))]
pub struct UncleanStop {
    /// The tasks and threads that did not end in time. The tasks were aborted, the threads still run.
    pub running: Vec<String>,
    /// The tasks and threads that panicked since the start; the panics are in the log.
    pub panicked: Vec<String>,
}

impl Tasks {
    /// The root of a tree of tasks.
    pub fn new() -> Self {
        Self(Scope::new(String::new(), None, None))
    }

    /// The root of a tree of tasks that are polled within a share of the runtime's threads.
    pub fn within(threads: Arc<ThreadShare>) -> Self {
        Self(Scope::new(String::new(), Some(threads), None))
    }

    /// A group within this one, which is stopped with it or earlier by itself.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let threads = self.0.threads.clone();
        let child = Scope::new(self.0.path_of(name), threads, Some(Arc::clone(&self.0)));
        let mut children = self.0.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|scope| scope.strong_count() > 0);
        children.push(Arc::downgrade(&child));
        // Under the lock of `children`, so that a concurrent stop either finds the child there or is
        // seen here.
        child.stopping.send_replace(*self.0.stopping.borrow());
        Self(child)
    }

    /// Starts a task on the current runtime. It should end soon after
    /// [`shutdown`](Self::shutdown) resolves.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that starts tasks")]
    pub fn spawn<F>(&self, name: &str, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let guard = Scope::register(&self.0, name);
        let id = guard.id;
        // A future that moves into an async block takes its size twice: as what the block captures,
        // and as what it awaits.
        let mut future = Box::pin(future);
        let handle = tokio::spawn(async move {
            let mut polled = poll_fn(|context| {
                match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                    Ok(poll) => poll.map(Ok),
                    Err(panic) => Poll::Ready(Err(panic)),
                }
            });
            let result = match &guard.scope.threads {
                Some(threads) => WithinShare::new(&mut polled, || Arc::clone(threads)).await,
                None => polled.await,
            };
            guard.finish(result)
        });
        let abort = handle.abort_handle();
        self.0.running.send_if_modified(|running| {
            if let Some(task) = running.get_mut(&id) {
                task.abort = Some(abort);
            }
            // Returns false: the set of running tasks is the same, so no waiter is woken.
            false
        });
        handle
    }

    /// Starts a thread for blocking work. It should end soon after
    /// [`is_stopping`](Self::is_stopping) returns true, or when its input channel is closed.
    pub fn spawn_thread(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let guard = Scope::register(&self.0, name);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            guard.finish(result);
        })?;
        Ok(())
    }

    /// Resolves when this group is asked to stop.
    pub fn shutdown(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopping = self.0.stopping.subscribe();
        async move {
            // An error means that the whole group was dropped, which is a stop as well.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        }
    }

    /// Whether this group was asked to stop.
    pub fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }

    /// Asks this group and all groups within it to stop, without waiting for them.
    pub fn ask_to_stop(&self) {
        for scope in self.0.tree() {
            scope.stopping.send_replace(true);
        }
    }

    /// Aborts all tasks of this group and of the groups within it, without asking them to stop or
    /// waiting for them. [`stop`](Self::stop) waits, and stops the threads.
    pub fn abort(&self) {
        for scope in self.0.tree() {
            for task in scope.running.borrow().values() {
                if let Some(abort) = &task.abort {
                    abort.abort();
                }
            }
        }
    }

    /// Asks all tasks and threads of this group, and of the groups within it, to stop, and waits
    /// for them; aborts the tasks that did not end within `timeout`.
    pub async fn stop(&self, timeout: Duration) -> Result<(), UncleanStop> {
        self.ask_to_stop();
        let deadline = Instant::now() + timeout;
        // A task may start another one while it ends, so this repeats until no task runs.
        while let Some(scope) = self.0.tree().into_iter().find(|scope| !scope.is_idle()) {
            let mut running = scope.running.subscribe();
            if timeout_at(deadline, running.wait_for(BTreeMap::is_empty)).await.is_err() {
                break;
            }
        }
        let mut still_running = Vec::new();
        for scope in self.0.tree() {
            for task in scope.running.borrow().values() {
                still_running.push(task.name.clone());
                if let Some(abort) = &task.abort {
                    abort.abort();
                }
            }
        }
        let panicked = self.0.panicked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if still_running.is_empty() && panicked.is_empty() {
            return Ok(());
        }
        Err(UncleanStop { running: still_running, panicked })
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.0.running.borrow();
        let names = running.values().map(|task| &task.name);
        f.write_str("Tasks ")?;
        f.debug_list().entries(names).finish()
    }
}

impl Scope {
    fn new(
        path: String,
        threads: Option<Arc<ThreadShare>>,
        parent: Option<Arc<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            path,
            threads,
            parent,
            children: Mutex::default(),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(BTreeMap::new()),
            panicked: Mutex::default(),
            started: AtomicU64::new(0),
        })
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}/{name}", self.path) }
    }

    fn register(scope: &Arc<Self>, name: &str) -> TaskGuard {
        let id = scope.started.fetch_add(1, Ordering::Relaxed);
        let name = scope.path_of(name);
        let running = RunningTask { name: name.clone(), abort: None };
        scope.running.send_modify(|all| drop(all.insert(id, running)));
        TaskGuard { scope: Arc::clone(scope), id, name }
    }

    fn is_idle(&self) -> bool {
        self.running.borrow().is_empty()
    }

    /// This scope and its descendants, parents first.
    fn tree(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let mut tree = vec![Arc::clone(self)];
        let mut next = 0;
        while next < tree.len() {
            let children = Arc::clone(&tree[next]);
            let children = children.children.lock().unwrap_or_else(PoisonError::into_inner);
            tree.extend(children.iter().filter_map(Weak::upgrade));
            next += 1;
        }
        tree
    }

    /// Records a panic in every group that the task belongs to.
    fn record_panic(&self, name: &str) {
        let mut scope = Some(self);
        while let Some(group) = scope {
            let mut panicked = group.panicked.lock().unwrap_or_else(PoisonError::into_inner);
            panicked.push(name.to_owned());
            scope = group.parent.as_deref();
        }
    }
}

/// The registration of a running task or thread, removed when dropped, also when the task is aborted.
struct TaskGuard {
    scope: Arc<Scope>,
    id: u64,
    name: String,
}

impl TaskGuard {
    fn finish<T>(self, result: Result<T, Box<dyn Any + Send>>) -> T {
        result.unwrap_or_else(|panic| {
            let message = panic_message(&*panic);
            tracing::error!(task = self.name, message, "a task panicked");
            self.scope.record_panic(&self.name);
            drop(self);
            resume_unwind(panic)
        })
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.scope.running.send_modify(|running| drop(running.remove(&self.id)));
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn describe(running: &[String], panicked: &[String]) -> String {
    let part = |names: &[String], what: &str| {
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let parts = [part(running, "still running"), part(panicked, "panicked")];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::mpsc;

    use super::*;
    use crate::thread_shares::Threads;

    const TIMEOUT: Duration = Duration::from_secs(5);
    /// Longer than any test: the time that a thread needs is not that of a test's clock.
    const NEVER: Duration = Duration::from_hours(1);

    fn idle_task(tasks: &Tasks, name: &str) {
        let shutdown = tasks.shutdown();
        tasks.spawn(name, shutdown);
    }

    #[tokio::test]
    async fn a_stop_waits_for_the_whole_tree() {
        let plane = Tasks::new();
        let store = plane.child("store");
        idle_task(&plane, "listen");
        idle_task(&store, "commit");
        idle_task(&store.child("sweeper"), "sweep");
        assert_eq!(plane.stop(TIMEOUT).await, Ok(()));
        assert!(store.is_stopping());
    }

    #[tokio::test]
    async fn an_aborted_task_is_not_asked_to_stop() {
        let plane = Tasks::new();
        let store = plane.child("store");
        let shutdown = store.shutdown();
        let task = store.spawn("commit", shutdown);
        tokio::task::yield_now().await;
        plane.abort();
        assert_eq!(plane.stop(TIMEOUT).await, Ok(()));
        assert!(task.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn a_group_stops_without_its_parent() {
        let plane = Tasks::new();
        let store = plane.child("store");
        idle_task(&store, "commit");
        assert_eq!(store.stop(TIMEOUT).await, Ok(()));
        assert!(!plane.is_stopping());
    }

    #[tokio::test]
    async fn a_group_created_after_the_stop_is_stopped_at_once() {
        let plane = Tasks::new();
        plane.stop(TIMEOUT).await.unwrap();
        let late = plane.child("late");
        late.shutdown().await;
        assert!(late.is_stopping());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_reported_and_aborted() {
        let plane = Tasks::new();
        let stuck = plane.child("store").spawn("stuck", pending::<()>());
        let unclean = plane.stop(TIMEOUT).await.unwrap_err();
        assert_eq!(unclean.running, ["store/stuck"]);
        assert_eq!(unclean.to_string(), "still running: store/stuck");
        assert!(stuck.await.unwrap_err().is_cancelled());
        assert_eq!(plane.stop(TIMEOUT).await, Ok(()));
    }

    #[tokio::test]
    async fn a_panic_is_reported_with_the_name_of_the_task() {
        let plane = Tasks::new();
        let handle = plane.spawn("panicking", async { panic!("expected in this test") });
        assert!(handle.await.unwrap_err().is_panic());
        let unclean = plane.stop(TIMEOUT).await.unwrap_err();
        assert_eq!(unclean.panicked, ["panicking"]);
    }

    #[tokio::test]
    async fn a_task_returns_its_result_through_its_handle() {
        let tasks = Tasks::new();
        assert_eq!(tasks.spawn("sum", async { 1 + 1 }).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn the_tasks_of_a_share_are_polled_within_it() {
        let components = Threads::current().component_share();
        let tasks = Tasks::within(Arc::clone(&components)).child("controllers");
        let taken = {
            let components = Arc::clone(&components);
            move || components.taken()
        };
        assert_eq!(tasks.spawn("task", async move { taken() }).await.unwrap(), 1);
        assert_eq!(components.taken(), 0);
    }

    #[tokio::test]
    async fn threads_are_joined_too_and_their_panics_reported() {
        let tasks = Tasks::new();
        let (sender, receiver) = mpsc::channel::<()>();
        tasks.spawn_thread("receiver", move || while receiver.recv().is_ok() {}).unwrap();
        tasks.spawn_thread("panicking", || panic!("expected in this test")).unwrap();
        drop(sender);
        let unclean = tasks.stop(NEVER).await.unwrap_err();
        assert_eq!(
            unclean,
            UncleanStop { running: vec![], panicked: vec!["panicking".to_owned()] }
        );
    }
}
