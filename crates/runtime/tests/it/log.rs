//! [`Log`]: the log of one test.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Collects what the tasks of this thread log, at `info` and above, until it is dropped. A test with
/// a log runs on one thread.
pub(crate) struct Log {
    text: Writer,
    _guard: DefaultGuard,
}

/// A second subscriber of the process. With a single one, an event that first happens on a thread
/// without it would be disabled on all threads.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

impl Log {
    pub(crate) fn start() -> Self {
        LazyLock::force(&SECOND);
        let text = Writer::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .without_time()
            .with_writer(text.clone())
            .finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines that contain `part`.
    pub(crate) fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.text.0.lock().unwrap()).into_owned();
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

#[derive(Clone, Default)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
