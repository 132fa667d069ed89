//! [`ConnectionTask`]: a connection and its streams, polled as one task.
//!
//! The HTTP/2 library starts a task for each stream, beside that of the connection. An event for a
//! thousand watches would wake a thousand tasks, and each of them its connection. Here the streams of
//! a connection are polled within the connection's task: first the streams that were woken, then the
//! connection, which writes what they have queued, and then everything is sent at once.
//!
//! ```text
//! event ──▶ stream 1 ┐
//!       ──▶ stream 2 ├─ wake once ──▶ poll stream 1, 2, 3, then the connection, then send
//!       ──▶ stream 3 ┘
//! ```
//!
//! Streams and connection wake each other while they are polled: a stream that queues a frame wakes
//! the connection, and the connection wakes a stream that waits for space. With the waker of the task,
//! each of these wakes would poll everything once more. So each of the two has a [`WakeFlag`], and only
//! the part whose flag is set is polled. Without them an event for each of 100 watches costs 31 to 47 %
//! more CPU (docs/performance.md).
//!
//! A stream must therefore not compute for long: requests run in tasks of their own (`in_own_task`).
//!
//! A [`Checker`] makes the task check at intervals whether the client reads its responses
//! ([`Progress`]). A stream that is stalled for too long is dropped, which resets it. If the
//! connection itself or a response over HTTP/1.1 is stalled, the task ends.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use tokio::io::AsyncWrite;

use super::progress::{Progress, StallDetector};
use super::write_buffer::{BufferedTransport, WriteBuffer, buffered};

/// The number of rounds in which streams and connection may wake each other before other tasks run.
const MAX_ROUNDS: usize = 4;

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module documentation](self).
pub(super) struct ConnectionTask<F, T> {
    connection: Pin<Box<F>>,
    streams: FuturesUnordered<CheckedStream>,
    new_streams: NewStreams,
    buffer: WriteBuffer<T>,
    /// Detects that the peer does not read from the transport.
    transport_stalls: StallDetector,
    /// Detects that the peer does not read a response over HTTP/1.1, which has no stream.
    http_1_stalls: StallDetector,
    task: Arc<TaskWaker>,
    /// Set when the connection is woken.
    connection_flag: Arc<WakeFlag>,
    /// Set when one of the streams is woken.
    streams_flag: Arc<WakeFlag>,
    /// Set when a check is requested.
    check_flag: Arc<WakeFlag>,
}

/// The executor to which the HTTP library gives the streams that it starts.
#[derive(Clone, Default)]
pub(super) struct NewStreams(Arc<Mutex<StartedStreams>>);

#[derive(Default)]
struct StartedStreams {
    streams: Vec<CheckedStream>,
    /// The progress of the last request's response. Over HTTP/2, the request's stream starts next and
    /// takes it; over HTTP/1.1 it stays here.
    progress: Option<Arc<Progress>>,
    /// The number of requests so far.
    requests: u32,
}

impl NewStreams {
    /// Records the beginning of a request; returns the progress of its response.
    pub(super) fn begin_request(&self) -> Arc<Progress> {
        let mut started = self.lock();
        started.requests = started.requests.wrapping_add(1);
        let progress = Arc::new(Progress::new(started.requests));
        started.progress = Some(Arc::clone(&progress));
        progress
    }

    fn lock(&self) -> MutexGuard<'_, StartedStreams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for NewStreams {
    fn execute(&self, stream: F) {
        let mut started = self.lock();
        let progress = started.progress.take().unwrap_or_default();
        let stalls = StallDetector::default();
        let stream = Some(Box::pin(stream) as StreamFuture);
        started.streams.push(CheckedStream { stream, progress, stalls, waker: None });
    }
}

/// A stream, until it ends or is stalled for too long.
struct CheckedStream {
    stream: Option<StreamFuture>,
    progress: Arc<Progress>,
    stalls: StallDetector,
    /// Wakes the stream when a check drops it.
    waker: Option<Waker>,
}

impl CheckedStream {
    /// Drops the stream if it is stalled for too long; returns whether its response is a watch.
    fn check(&mut self) -> bool {
        let is_stream = self.progress.is_stream();
        if self.stalls.is_overdue(self.progress.observe(), is_stream) {
            self.stream = None;
            self.waker.take().into_iter().for_each(Waker::wake);
        }
        is_stream
    }
}

impl Future for CheckedStream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(()) };
        let polled = stream.as_mut().poll(cx);
        if polled.is_pending() && self.waker.as_ref().is_none_or(|it| !it.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
        polled
    }
}

/// Asks a connection to check its progress, as long as the connection exists.
pub(super) struct Checker(Weak<WakeFlag>);

impl Checker {
    /// Asks for a check; false if the connection has ended.
    pub(super) fn check(&self) -> bool {
        let Some(flag) = self.0.upgrade() else { return false };
        flag.wake();
        true
    }
}

/// Wakes the task of a connection.
#[derive(Default)]
struct TaskWaker {
    waker: AtomicWaker,
    /// The task is being polled, and reads its flags before it returns: it need not be woken.
    is_polled: AtomicBool,
}

/// A waker that notes which part of the task was woken.
struct WakeFlag {
    is_set: AtomicBool,
    task: Arc<TaskWaker>,
}

impl WakeFlag {
    /// A flag that is set, so that everything is polled at first.
    fn new(task: &Arc<TaskWaker>) -> Arc<Self> {
        Arc::new(Self { is_set: AtomicBool::new(true), task: Arc::clone(task) })
    }

    /// Clears the flag; returns whether it was set.
    fn take(&self) -> bool {
        self.is_set.swap(false, Ordering::SeqCst)
    }

    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The task clears `is_polled` before it reads the flags, so one of the two sees the other.
        self.is_set.store(true, Ordering::SeqCst);
        if !self.task.is_polled.load(Ordering::SeqCst) {
            self.task.waker.wake();
        }
    }
}

/// The client has not read the bytes sent to it for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client does not read the bytes sent to it")]
pub(super) struct Stalled;

impl<F: Future, T: AsyncWrite + Unpin> ConnectionTask<F, T> {
    /// A task for the connection that `connect` creates from the transport.
    pub(super) fn new(
        transport: T,
        connect: impl FnOnce(BufferedTransport<T>, NewStreams) -> F,
    ) -> Self {
        let (transport, buffer) = buffered(transport);
        let new_streams = NewStreams::default();
        let task = Arc::new(TaskWaker::default());
        Self {
            connection: Box::pin(connect(transport, new_streams.clone())),
            streams: FuturesUnordered::new(),
            new_streams,
            buffer,
            transport_stalls: StallDetector::default(),
            http_1_stalls: StallDetector::default(),
            connection_flag: WakeFlag::new(&task),
            streams_flag: WakeFlag::new(&task),
            check_flag: WakeFlag::new(&task),
            task,
        }
    }

    /// A handle that starts checks of the progress.
    pub(super) fn checker(&self) -> Checker {
        Checker(Arc::downgrade(&self.check_flag))
    }

    /// Drops the streams that are stalled for too long; fails if the connection itself is stalled.
    fn check(&mut self) -> Result<(), Stalled> {
        let mut has_watch = false;
        for stream in &mut self.streams {
            has_watch |= stream.check();
        }
        let progress = self.new_streams.lock().progress.clone();
        if let Some(progress) = progress {
            has_watch |= progress.is_stream();
            if self.http_1_stalls.is_overdue(progress.observe(), has_watch) {
                return Err(Stalled);
            }
        }
        let stalled_at = self.buffer.stalled_at();
        let is_overdue = self.transport_stalls.is_overdue(stalled_at, has_watch);
        if is_overdue { Err(Stalled) } else { Ok(()) }
    }

    /// Polls what was woken, until nothing is or the rounds are used up.
    fn poll_woken(&mut self) -> Poll<F::Output> {
        for _ in 0..MAX_ROUNDS {
            let streams = self.streams_flag.take();
            if streams {
                self.poll_streams();
            }
            let connection = self.connection_flag.take();
            if connection && let Poll::Ready(ended) = self.poll_connection() {
                return Poll::Ready(ended);
            }
            if !streams && !connection {
                break;
            }
            self.add_new_streams();
        }
        Poll::Pending
    }

    fn poll_streams(&mut self) {
        let waker = Waker::from(Arc::clone(&self.streams_flag));
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(Some(())) = Pin::new(&mut self.streams).poll_next(&mut cx) {}
    }

    fn poll_connection(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.connection_flag));
        self.connection.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn add_new_streams(&mut self) {
        let mut started = self.new_streams.lock();
        if !started.streams.is_empty() {
            self.streams.extend(started.streams.drain(..));
            self.streams_flag.is_set.store(true, Ordering::SeqCst);
        }
    }
}

impl<F: Future, T: AsyncWrite + Unpin> Future for ConnectionTask<F, T> {
    type Output = Result<F::Output, Stalled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.waker.register(cx.waker());
        self.task.is_polled.store(true, Ordering::SeqCst);
        if self.check_flag.take()
            && let Err(stalled) = self.check()
        {
            return Poll::Ready(Err(stalled));
        }
        let polled = self.poll_woken();
        // The bytes that the transport does not accept now are sent when it is writable again.
        let writable = Waker::from(Arc::clone(&self.connection_flag));
        self.buffer.send(&mut Context::from_waker(&writable));
        self.task.is_polled.store(false, Ordering::SeqCst);
        let flags = [&self.streams_flag, &self.connection_flag, &self.check_flag];
        if flags.into_iter().any(|it| it.is_set()) {
            cx.waker().wake_by_ref();
        }
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;
    use hyper::rt::Executor;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::sync::{Notify, oneshot};

    use super::*;

    fn transport() -> (DuplexStream, DuplexStream) {
        duplex(1 << 20)
    }

    #[tokio::test]
    async fn a_stream_started_by_the_connection_is_polled_with_it() {
        let (ours, _theirs) = transport();
        let task = ConnectionTask::new(ours, |_, streams| async move {
            let (sender, receiver) = oneshot::channel();
            streams.execute(async move { sender.send(42).unwrap() });
            receiver.await.unwrap()
        });
        assert_eq!(task.await.unwrap(), 42);
    }

    #[tokio::test]
    async fn a_stream_that_another_task_wakes_is_polled() {
        let (ours, _theirs) = transport();
        let event = Arc::new(Notify::new());
        let awaited_event = Arc::clone(&event);
        let task = ConnectionTask::new(ours, |_, streams| async move {
            let (sender, receiver) = oneshot::channel();
            streams.execute(async move {
                awaited_event.notified().await;
                sender.send(()).unwrap();
            });
            receiver.await.unwrap();
        });
        let elsewhere = async {
            tokio::task::yield_now().await;
            event.notify_one();
        };
        tokio::join!(task, elsewhere).0.unwrap();
    }

    #[tokio::test]
    async fn written_bytes_are_sent_when_the_connection_waits() {
        let (ours, mut theirs) = transport();
        let task = ConnectionTask::new(ours, |mut transport, _| async move {
            transport.write_all(b"response").await.unwrap();
            transport.flush().await.unwrap();
            pending::<()>().await;
        });
        let mut response = [0; 8];
        tokio::select! {
            _ = task => unreachable!("the connection never ends"),
            read = theirs.read_exact(&mut response) => assert_eq!(read.unwrap(), 8),
        }
        assert_eq!(&response, b"response");
    }

    #[tokio::test]
    async fn bytes_that_exceed_the_transport_buffer_are_sent_when_the_peer_reads() {
        let (ours, mut theirs) = duplex(10);
        let task = ConnectionTask::new(ours, |mut transport, _| async move {
            transport.write_all(&[7; 1000]).await.unwrap();
            pending::<()>().await;
        });
        let mut response = [0; 1000];
        tokio::select! {
            _ = task => unreachable!("the connection never ends"),
            read = theirs.read_exact(&mut response) => assert_eq!(read.unwrap(), 1000),
        }
        assert_eq!(response, [7; 1000]);
    }

    /// Polls `task` after each of many checks; returns whether it has ended.
    fn check_often<F: Future>(task: &mut ConnectionTask<F, DuplexStream>) -> bool {
        let checker = task.checker();
        for _ in 0..100 {
            assert!(checker.check());
            if (&mut *task).now_or_never().is_some() {
                return true;
            }
        }
        false
    }

    #[tokio::test]
    async fn a_stream_whose_response_is_not_read_is_dropped() {
        let (ours, _theirs) = transport();
        let (stalled, mut stalled_is_dropped) = oneshot::channel::<()>();
        let (other, mut other_is_dropped) = oneshot::channel::<()>();
        let mut task = ConnectionTask::new(ours, |_, streams| async move {
            streams.begin_request().record_handed_out();
            streams.execute(async move {
                let _dropped_with_stream = stalled;
                pending::<()>().await;
            });
            streams.begin_request();
            streams.execute(async move {
                let _dropped_with_stream = other;
                pending::<()>().await;
            });
            pending::<()>().await;
        });
        assert!(!check_often(&mut task), "the connection continues");
        assert!(stalled_is_dropped.try_recv().is_err_and(|it| it == TryRecvError::Closed));
        assert!(other_is_dropped.try_recv().is_err_and(|it| it == TryRecvError::Empty));
    }

    #[tokio::test]
    async fn a_connection_whose_peer_reads_nothing_ends() {
        let (ours, _theirs) = duplex(10);
        let mut task = ConnectionTask::new(ours, |mut transport, _| async move {
            transport.write_all(&[7; 1000]).await.unwrap();
            pending::<()>().await;
        });
        assert!(check_often(&mut task));
    }

    #[tokio::test]
    async fn a_connection_that_has_nothing_to_send_continues() {
        let (ours, mut theirs) = transport();
        let mut task = ConnectionTask::new(ours, |mut transport, streams| async move {
            streams.begin_request();
            transport.write_all(b"response").await.unwrap();
            pending::<()>().await;
        });
        assert!((&mut task).now_or_never().is_none());
        theirs.read_exact(&mut [0; 8]).await.unwrap();
        assert!(!check_often(&mut task));
    }
}
