//! [`Turns`]: a connection and its streams, polled as one task.
//!
//! The HTTP/2 library wants a task for each stream, beside the connection's own. A change that a
//! thousand watch would wake a thousand tasks, and each of them its connection. Here the streams of
//! a connection are polled within the connection's task: a turn polls those that were woken, then
//! the connection, which writes what they have queued, and then sends it all at once.
//!
//! ```text
//! change ──▶ stream 1 ┐
//!        ──▶ stream 2 ├─ wake once ──▶ turn: stream 1, 2, 3, connection, send
//!        ──▶ stream 3 ┘
//! ```
//!
//! What takes long must therefore not be done by a stream itself; see `listen.rs`.
//!
//! A [`Checker`] lets the task check from time to time whether the client takes what it is sent
//! ([`Progress`]). A stream that is stalled for too long is dropped, which resets it. If that is the
//! connection itself, or an answer over HTTP/1.1, the task ends.

use super::corked::{Cork, Corked, corked};
use super::progress::{Checks, Progress};
use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::AsyncWrite;

/// So often streams and connection may wake each other before other tasks have their turn.
const ROUNDS: usize = 4;

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module documentation](self).
pub(super) struct Turns<F, T> {
    connection: Pin<Box<F>>,
    streams: FuturesUnordered<CheckedStream>,
    begun: Streams,
    cork: Cork<T>,
    /// For what is sent on the connection, and for an answer over HTTP/1.1.
    checks: [Checks; 2],
    task: Arc<Task>,
    connection_bell: Arc<Bell>,
    streams_bell: Arc<Bell>,
    checks_bell: Arc<Bell>,
}

/// Takes the streams that the HTTP library begins.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Begun>>);

#[derive(Default)]
struct Begun {
    streams: Vec<CheckedStream>,
    /// That of the request that came last. Over HTTP/2 its stream begins right after it.
    progress: Option<Arc<Progress>>,
    /// The number of requests so far.
    requests: u32,
}

impl Streams {
    /// A request has come, whose answer has this progress.
    pub(super) fn begin(&self) -> Arc<Progress> {
        let mut begun = self.lock();
        begun.requests = begun.requests.wrapping_add(1);
        let progress = Arc::new(Progress::new(begun.requests));
        begun.progress = Some(Arc::clone(&progress));
        progress
    }

    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().expect("nothing panics while it holds the list")
    }
}

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut begun = self.lock();
        let progress = begun.progress.take().unwrap_or_default();
        let checks = Checks::default();
        let stream = Some(Box::pin(stream) as StreamFuture);
        begun.streams.push(CheckedStream { stream, progress, checks, waker: None });
    }
}

/// A stream, until it ends or is stalled for too long.
struct CheckedStream {
    stream: Option<StreamFuture>,
    progress: Arc<Progress>,
    checks: Checks,
    /// The task of the stream, to be woken when it is dropped by a check.
    waker: Option<Waker>,
}

impl CheckedStream {
    /// Drops the stream if it is stalled for too long; whether it is a watch.
    fn check(&mut self) -> bool {
        let is_stream = self.progress.is_stream();
        if self.checks.is_overdue(self.progress.observe(), is_stream) {
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

/// Lets a connection check its progress, as long as there is the connection.
pub(super) struct Checker(Weak<Bell>);

impl Checker {
    /// Lets it check; false if the connection has ended.
    pub(super) fn check(&self) -> bool {
        let Some(bell) = self.0.upgrade() else { return false };
        bell.wake();
        true
    }
}

/// Something that was sent was not taken for too long.
#[derive(Debug, thiserror::Error)]
#[error("the client does not read what it is sent")]
pub(super) struct Stalled;

/// The task that takes the turns.
#[derive(Default)]
struct Task {
    waker: AtomicWaker,
    /// It is at it and will look at its bells before it stops, so it need not be woken.
    busy: AtomicBool,
}

/// Wakes the task, and says for what.
struct Bell {
    rung: AtomicBool,
    task: Arc<Task>,
}

impl Bell {
    fn new(task: &Arc<Task>) -> Arc<Self> {
        Arc::new(Self { rung: AtomicBool::new(true), task: Arc::clone(task) })
    }

    fn was_rung(&self) -> bool {
        self.rung.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order, and the task does it in the opposite one, so that one sees the other.
        self.rung.store(true, Ordering::SeqCst);
        if !self.task.busy.load(Ordering::SeqCst) {
            self.task.waker.wake();
        }
    }
}

impl<F: Future, T: AsyncWrite + Unpin> Turns<F, T> {
    /// Runs the connection that `connect` makes of the transport.
    pub(super) fn new(transport: T, connect: impl FnOnce(Corked<T>, Streams) -> F) -> Self {
        let (transport, cork) = corked(transport);
        let begun = Streams::default();
        let task = Arc::new(Task::default());
        Self {
            connection: Box::pin(connect(transport, begun.clone())),
            streams: FuturesUnordered::new(),
            begun,
            cork,
            checks: Default::default(),
            checks_bell: Bell::new(&task),
            connection_bell: Bell::new(&task),
            streams_bell: Bell::new(&task),
            task,
        }
    }

    /// Lets somebody else say when to check the progress.
    pub(super) fn checker(&self) -> Checker {
        Checker(Arc::downgrade(&self.checks_bell))
    }

    /// Drops the streams that are stalled for too long, or says that the connection is.
    fn check(&mut self) -> Result<(), Stalled> {
        let mut has_watch = false;
        for stream in &mut self.streams {
            has_watch |= stream.check();
        }
        let [transport, http_1] = &mut self.checks;
        let progress = self.begun.lock().progress.clone();
        if let Some(progress) = progress {
            has_watch |= progress.is_stream();
            if http_1.is_overdue(progress.observe(), has_watch) {
                return Err(Stalled);
            }
        }
        if transport.is_overdue(self.cork.stalled_at(), has_watch) { Err(Stalled) } else { Ok(()) }
    }

    /// Polls whatever was woken, until nothing is or it has been long enough.
    fn rounds(&mut self) -> Poll<F::Output> {
        for _ in 0..ROUNDS {
            let streams = self.streams_bell.was_rung();
            if streams {
                self.poll_streams();
            }
            let connection = self.connection_bell.was_rung();
            if connection && let Poll::Ready(ended) = self.poll_connection() {
                return Poll::Ready(ended);
            }
            if !streams && !connection {
                break;
            }
            self.adopt();
        }
        Poll::Pending
    }

    fn poll_streams(&mut self) {
        let waker = Waker::from(Arc::clone(&self.streams_bell));
        let mut cx = Context::from_waker(&waker);
        while let Poll::Ready(Some(())) = Pin::new(&mut self.streams).poll_next(&mut cx) {}
    }

    fn poll_connection(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.connection_bell));
        self.connection.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Takes over the streams that were begun.
    fn adopt(&mut self) {
        let mut begun = self.begun.lock();
        if !begun.streams.is_empty() {
            self.streams.extend(begun.streams.drain(..));
            self.streams_bell.rung.store(true, Ordering::SeqCst);
        }
    }
}

impl<F: Future, T: AsyncWrite + Unpin> Future for Turns<F, T> {
    type Output = Result<F::Output, Stalled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.waker.register(cx.waker());
        self.task.busy.store(true, Ordering::SeqCst);
        if self.checks_bell.was_rung()
            && let Err(stalled) = self.check()
        {
            return Poll::Ready(Err(stalled));
        }
        let polled = self.rounds();
        // What the peer does not take now leaves in the turn after it has read.
        let writable = Waker::from(Arc::clone(&self.connection_bell));
        self.cork.send(&mut Context::from_waker(&writable));
        self.task.busy.store(false, Ordering::SeqCst);
        let rung = |bell: &Bell| bell.rung.load(Ordering::SeqCst);
        if rung(&self.streams_bell) || rung(&self.connection_bell) || rung(&self.checks_bell) {
            cx.waker().wake_by_ref();
        }
        polled.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use hyper::rt::Executor;
    use std::future::pending;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::sync::{Notify, oneshot};

    fn transport() -> (DuplexStream, DuplexStream) {
        duplex(1 << 20)
    }

    #[tokio::test]
    async fn a_stream_that_the_connection_begins_is_polled_with_it() {
        let (ours, _theirs) = transport();
        let turns = Turns::new(ours, |_, streams| async move {
            let (tell, told) = oneshot::channel();
            streams.execute(async move { tell.send(42).unwrap() });
            told.await.unwrap()
        });
        assert_eq!(turns.await.unwrap(), 42);
    }

    #[tokio::test]
    async fn a_stream_that_is_woken_from_elsewhere_takes_its_turn() {
        let (ours, _theirs) = transport();
        let news = Arc::new(Notify::new());
        let heard = Arc::clone(&news);
        let turns = Turns::new(ours, |_, streams| async move {
            let (tell, told) = oneshot::channel();
            streams.execute(async move {
                heard.notified().await;
                tell.send(()).unwrap();
            });
            told.await.unwrap();
        });
        let elsewhere = async {
            tokio::task::yield_now().await;
            news.notify_one();
        };
        tokio::join!(turns, elsewhere).0.unwrap();
    }

    #[tokio::test]
    async fn what_the_connection_wrote_leaves_when_it_waits() {
        let (ours, mut theirs) = transport();
        let turns = Turns::new(ours, |mut transport, _| async move {
            transport.write_all(b"answer").await.unwrap();
            transport.flush().await.unwrap();
            pending::<()>().await;
        });
        let mut answer = [0; 6];
        tokio::select! {
            _ = turns => unreachable!("it waits for ever"),
            read = theirs.read_exact(&mut answer) => assert_eq!(read.unwrap(), 6),
        }
        assert_eq!(&answer, b"answer");
    }

    #[tokio::test]
    async fn what_the_peer_does_not_take_at_once_leaves_when_it_reads() {
        let (ours, mut theirs) = duplex(10);
        let turns = Turns::new(ours, |mut transport, _| async move {
            transport.write_all(&[7; 1000]).await.unwrap();
            pending::<()>().await;
        });
        let mut answer = [0; 1000];
        tokio::select! {
            _ = turns => unreachable!("it waits for ever"),
            read = theirs.read_exact(&mut answer) => assert_eq!(read.unwrap(), 1000),
        }
        assert_eq!(answer, [7; 1000]);
    }

    /// Polls `turns` after each of many checks; whether it has ended.
    fn check_often<F: Future>(turns: &mut Turns<F, DuplexStream>) -> bool {
        let checker = turns.checker();
        for _ in 0..100 {
            assert!(checker.check());
            if (&mut *turns).now_or_never().is_some() {
                return true;
            }
        }
        false
    }

    #[tokio::test]
    async fn a_stream_whose_answer_is_not_taken_is_dropped() {
        let (ours, _theirs) = transport();
        let (stalled, mut stalled_is_dropped) = oneshot::channel::<()>();
        let (other, mut other_is_dropped) = oneshot::channel::<()>();
        let mut turns = Turns::new(ours, |_, streams| async move {
            streams.begin().hand_out();
            streams.execute(async move {
                let _dropped_with_it = stalled;
                pending::<()>().await;
            });
            streams.begin();
            streams.execute(async move {
                let _dropped_with_it = other;
                pending::<()>().await;
            });
            pending::<()>().await;
        });
        assert!(!check_often(&mut turns), "the connection goes on");
        assert!(stalled_is_dropped.try_recv().is_err_and(|it| it == TryRecvError::Closed));
        assert!(other_is_dropped.try_recv().is_err_and(|it| it == TryRecvError::Empty));
    }

    #[tokio::test]
    async fn a_connection_whose_peer_takes_nothing_ends() {
        let (ours, _theirs) = duplex(10);
        let mut turns = Turns::new(ours, |mut transport, _| async move {
            transport.write_all(&[7; 1000]).await.unwrap();
            pending::<()>().await;
        });
        assert!(check_often(&mut turns));
    }

    #[tokio::test]
    async fn a_connection_that_has_nothing_to_send_goes_on() {
        let (ours, mut theirs) = transport();
        let mut turns = Turns::new(ours, |mut transport, streams| async move {
            streams.begin();
            transport.write_all(b"answer").await.unwrap();
            pending::<()>().await;
        });
        assert!((&mut turns).now_or_never().is_none());
        theirs.read_exact(&mut [0; 6]).await.unwrap();
        assert!(!check_often(&mut turns));
    }
}
