//! Log messages of a failing disk, which include the cause.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::simulated_disk::{Faults, SimulatedDisk};
use keel::{Clock, Tasks, Timestamp};
use store::{Embedded, Expect, Options, Store};

/// Collects the log events of all threads, one line each: the message, and errors with causes.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
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
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{value:?}; ");
    }

    fn record_error(&mut self, _: &Field, error: &(dyn Error + 'static)) {
        let mut next: Option<&dyn Error> = Some(error);
        while let Some(error) = next {
            self.0 += &format!("{error}; ");
            next = error.source();
        }
    }
}

#[tokio::test]
async fn a_disk_failure_is_logged_with_its_cause() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let (disk, tasks) = (SimulatedDisk::new(), Tasks::new());
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let options = Options { log_bytes: 20_000, ..Options::default() };
    let store = Embedded::open_on(disk.to_disk(), options, &clock, &tasks).unwrap();
    let mut count = 0;
    loop {
        // Set before each write, since the fault makes one fsync fail.
        disk.set_faults(Faults { fail_database_sync: true, ..Faults::default() });
        let key = format!("/{count:04}");
        if store.put(&key, vec![7; 5000].into(), Expect::Any, None).await.is_err() {
            break;
        }
        count += 1;
    }
    store.close().await.unwrap();
    for message in ["a checkpoint of the log failed", "the journal failed"] {
        let lines = lines.0.lock().unwrap();
        let is_logged = |it: &String| it.contains(message) && it.contains("the disk lost a page");
        assert!(lines.iter().any(is_logged), "{message}: {lines:?}");
    }
}
