//! [`Log`]: what is logged on a test's thread, on which its plane runs.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The limit of waiting for a warning.
const WARNING_TIMEOUT: Duration = Duration::from_secs(20);

/// See the [module documentation](self).
pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

/// One line for each event up to a level: its message and its fields.
#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<String>>>, Level);

impl Log {
    /// Records the warnings of this thread.
    pub(crate) fn start() -> Self {
        Self::start_at(Level::WARN)
    }

    /// Records what is logged on this thread at `level` and above.
    pub(crate) fn start_at(level: Level) -> Self {
        let lines = Lines(Arc::default(), level);
        Self { _guard: tracing::subscriber::set_default(lines.clone()), lines }
    }

    /// Waits for a line that contains all of the texts.
    pub(crate) async fn until(&self, texts: &[&str]) {
        let logged = async {
            while !self.has(texts) {
                tokio::task::yield_now().await;
            }
        };
        let logged = tokio::time::timeout(WARNING_TIMEOUT, logged).await;
        assert!(logged.is_ok(), "waited for {texts:?} in {:?}", self.lines.0.lock().unwrap());
    }

    /// Whether a line contains all of the texts.
    pub(crate) fn has(&self, texts: &[&str]) -> bool {
        let lines = self.lines.0.lock().unwrap();
        lines.iter().any(|line| texts.iter().all(|it| line.contains(it)))
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.1
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}
