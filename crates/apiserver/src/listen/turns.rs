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

use super::corked::{Cork, Corked, corked};
use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::AsyncWrite;

/// So often streams and connection may wake each other before other tasks have their turn.
const ROUNDS: usize = 4;

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the [module documentation](self).
pub(super) struct Turns<F, T> {
    connection: Pin<Box<F>>,
    streams: FuturesUnordered<StreamFuture>,
    begun: Streams,
    cork: Cork<T>,
    task: Arc<Task>,
    connection_bell: Arc<Bell>,
    streams_bell: Arc<Bell>,
}

/// Takes the streams that the HTTP library begins.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Vec<StreamFuture>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.0.lock().expect("nothing panics while it holds the list").push(Box::pin(stream));
    }
}

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
            connection_bell: Bell::new(&task),
            streams_bell: Bell::new(&task),
            task,
        }
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
        let mut begun = self.begun.0.lock().expect("nothing panics while it holds the list");
        if !begun.is_empty() {
            self.streams.extend(begun.drain(..));
            self.streams_bell.rung.store(true, Ordering::SeqCst);
        }
    }
}

impl<F: Future, T: AsyncWrite + Unpin> Future for Turns<F, T> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.task.waker.register(cx.waker());
        self.task.busy.store(true, Ordering::SeqCst);
        let polled = self.rounds();
        // What the peer does not take now leaves in the turn after it has read.
        let writable = Waker::from(Arc::clone(&self.connection_bell));
        self.cork.send(&mut Context::from_waker(&writable));
        self.task.busy.store(false, Ordering::SeqCst);
        let rung = |bell: &Bell| bell.rung.load(Ordering::SeqCst);
        if rung(&self.streams_bell) || rung(&self.connection_bell) {
            cx.waker().wake_by_ref();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Executor;
    use std::future::pending;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
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
        assert_eq!(turns.await, 42);
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
        tokio::join!(turns, elsewhere);
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
            () = turns => unreachable!("it waits for ever"),
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
            () = turns => unreachable!("it waits for ever"),
            read = theirs.read_exact(&mut answer) => assert_eq!(read.unwrap(), 1000),
        }
        assert_eq!(answer, [7; 1000]);
    }
}
