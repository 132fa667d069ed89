//! [`Followed`]: the content of files, which are read again until the plane stops.
//!
//! All files follow the same rules:
//!
//! - They are read every [`INTERVAL`], on a thread on which no request waits.
//! - Content that was put into effect, or never can be, is [settled](Followed::settle), and is not
//!   reported again. Other content is reported at every reading.
//! - An error that persists is logged once, and what is in effect stays.

use std::error::Error;
use std::pin::Pin;
use std::time::Duration;

use keel::{Clock, Tasks, blocking, message_with_causes};

/// The interval at which files are read. Upstream also watches them.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// See the [module documentation](self). `T` is the content, or a hash of it.
pub(crate) struct Followed<T> {
    /// What the files contain, for the log.
    name: &'static str,
    clock: Clock,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    settled: Option<T>,
    /// The error that was logged last, until content is settled or read that is.
    error: Option<String>,
}

/// The files cannot be read, which was logged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl<T: PartialEq> Followed<T> {
    /// Files with `name`, whose present content is `settled`. The plane has this clock and these
    /// tasks.
    pub(crate) fn new(
        name: &'static str,
        clock: &Clock,
        tasks: &Tasks,
        settled: Option<T>,
    ) -> Self {
        let stop = Box::pin(tasks.shutdown());
        Self { name, clock: clock.clone(), stop, settled, error: None }
    }

    /// Calls `read` until it returns content that is not settled, or a new error, which is logged; None
    /// when the plane stops. `read` returns None if there is no content.
    pub(crate) async fn changed<E: Error + 'static>(
        &mut self,
        mut read: impl FnMut() -> Result<Option<T>, E>,
    ) -> Option<Result<T, Unreadable>> {
        loop {
            tokio::select! {
                () = self.clock.sleep(INTERVAL) => {}
                () = &mut self.stop => return None,
            }
            match blocking(&mut read) {
                Ok(Some(content)) if self.settled.as_ref() != Some(&content) => {
                    return Some(Ok(content));
                }
                Ok(_) => self.error = None,
                Err(error) => {
                    if self.fail(message_with_causes(&error)) {
                        return Some(Err(Unreadable));
                    }
                }
            }
        }
    }

    /// Content that is in effect, or that can never be.
    pub(crate) fn settle(&mut self, content: T) {
        self.settled = Some(content);
        self.error = None;
    }

    /// Logs an error, unless it is the last one again; returns whether it was logged.
    pub(crate) fn fail(&mut self, error: String) -> bool {
        if self.error.as_ref() == Some(&error) {
            return false;
        }
        tracing::error!(error, "the previous {} stays in effect", self.name);
        self.error = Some(error);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use keel::Timestamp;

    /// What the readings, one of which is due at once, report until the plane stops.
    async fn reports(
        settles: bool,
        readings: Vec<Result<Option<&'static str>, &'static str>>,
    ) -> Vec<Result<&'static str, Unreadable>> {
        let (clock, tasks) = (Clock::manual(Timestamp::from_seconds(0)), Tasks::new());
        let mut followed = Followed::new("content", &clock, &tasks, Some("first"));
        let mut readings = readings.into_iter();
        let mut reports = Vec::new();
        loop {
            let changed = followed.changed(|| {
                let Some(reading) = readings.next() else {
                    tasks.ask_to_stop();
                    return Ok(None);
                };
                reading.map_err(io::Error::other)
            });
            let advance = async {
                loop {
                    tokio::task::yield_now().await;
                    clock.advance(INTERVAL);
                }
            };
            let report = tokio::select! {
                report = changed => report,
                () = advance => None,
            };
            let Some(report) = report else { return reports };
            if let (Ok(content), true) = (&report, settles) {
                followed.settle(*content);
            }
            reports.push(report);
        }
    }

    #[tokio::test]
    async fn only_content_that_is_not_settled_is_reported() {
        let readings =
            || [Some("first"), Some("a"), None, Some("a"), Some("first")].map(Ok).to_vec();
        assert_eq!(reports(true, readings()).await, [Ok("a"), Ok("first")]);
        assert_eq!(reports(false, readings()).await, [Ok("a"), Ok("a")]);
    }

    #[tokio::test]
    async fn an_error_that_persists_is_reported_once() {
        let readings =
            vec![Err("x"), Err("x"), Err("y"), Err("x"), Ok(Some("first")), Err("x"), Err("x")];
        assert_eq!(reports(true, readings).await, [const { Err(Unreadable) }; 4]);
    }
}
