//! [`Reflector`]: lists, then watches from there, for ever: the Delta FIFO gets everything that
//! happens to the objects in scope, without a gap.
//!
//! ```text
//!            ┌──────────────── 410, went back, 404 ───────────────┐
//!            ▼                                                    │
//!   list (streamed, or in pages) ──▶ watch from its version ──▶ events, bookmarks ──┐
//!                                          ▲                                        │
//!                                          └── closed, cut, silent, 401, 403, 5xx ──┘
//! ```
//!
//! Which failure leads where:
//!
//! | failure | then |
//! |---|---|
//! | 410 (as an answer or as an event), a version from the future, 400 or 422 to a watch | list |
//! | an event older than the last one | list: only that is right for a server that lost its history *and* for a proxy that repeats itself |
//! | 404 | list, until the resource is there again; its objects are gone when nothing else was answered for half a minute |
//! | 429, or anything with a Retry-After | the same again, not before that time |
//! | a watch with initial events refused, or closed, silent or endless before their end | list in pages, from then on |
//! | a watch with initial events failed with 5xx | list in pages at once, this time |
//! | a watch with initial events failed in another way | the same again; after three times in a row, list in pages |
//! | a page's token expired | list without pages, once |
//! | an object without a name | counted, and passed over |
//! | an answer that cannot be read, 500 | the same again; after three times in a row without an event, list |
//! | 401, 403, 502 to 504, no connection, silence | the same again; tokens are the source's to renew |
//!
//! How it fares is told by the informer that it works for:
//!
//! ```
//! use informer::{InformerOptions, ReflectorOptions, Report, SharedInformer};
//!
//! let reflector = ReflectorOptions { page_size: 1000, ..ReflectorOptions::default() };
//! let options = InformerOptions { reflector, ..InformerOptions::default() };
//! # drop(options);
//!
//! async fn complain(informer: &SharedInformer) {
//!     let mut reports = informer.report();
//!     while reports.changed().await.is_ok() {
//!         let Report { failures, trouble, .. } = reports.borrow_and_update().clone();
//!         if let Some(trouble) = trouble {
//!             println!("{failures} failures so far, the last one: {trouble}");
//!         }
//!     }
//! }
//! ```
//!
//! Between two attempts lies a growing time with jitter; an event or a bookmark makes it small
//! again. Lists are always of the most recent state.

mod position;

use std::{
    collections::BTreeMap, error::Error, future::poll_fn, mem, pin::pin, sync::Arc, task::Poll,
    time::Duration,
};

use futures_util::StreamExt;
use keel::Backoff;

use crate::{
    BadItem, Item, ListRequest, ListWatchError, WatchEvent, WatchRequest, WatchStream,
    delta_fifo::Delta,
    informer::Shared,
    item::version_number,
    own_writes::{Epoch, Listing},
};
use position::{Advanced, NO_ACCIDENT, Position, is_expired, is_misunderstood};

/// A watch is given this much longer than it was asked for.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// Initial objects follow each other quickly; a server that shows none for longer, or some for ever,
/// does not know of initial events.
const INITIAL_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_INITIAL: Duration = Duration::from_mins(2);
const LIST_PATIENCE: Duration = Duration::from_mins(1);
/// A watch that lived so long was not in vain, even if nothing happened.
const GOOD_LIFE: Duration = Duration::from_secs(1);
/// A definition that was deleted took its objects with it. But the same answer comes from a server
/// that is just starting, or from somebody else while the server is exchanged, and objects are not
/// declared gone lightly.
const LONG_ABSENCE: Duration = Duration::from_secs(30);

/// How to list and watch.
#[derive(Debug, Clone)]
pub struct ReflectorOptions {
    /// Objects in a page.
    pub page_size: u32,
    /// Watches last this long up to twice as long, drawn for each.
    pub watch_timeout: Duration,
    /// The longest wait after a first failure.
    pub backoff_base: Duration,
    /// The longest wait after many failures.
    pub backoff_cap: Duration,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            page_size: 500,
            watch_timeout: Duration::from_mins(5),
            backoff_base: Duration::from_millis(800),
            backoff_cap: Duration::from_secs(30),
        }
    }
}

/// How the reflector fares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Lists that were taken over, in whichever form.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Failures since the start.
    pub failures: u64,
    /// What went wrong last, and has not gone well since.
    pub trouble: Option<String>,
    /// Objects that could not be cached, since they have no name or cannot be read at all.
    pub bad_items: u64,
    /// How far the cache has been told of what happened. An event that changes nothing else here is
    /// no reason to wake those who wait for a change.
    pub resource_version: Option<String>,
}

/// See the [module documentation](self).
pub(crate) struct Reflector {
    /// Has the cache, and acts on what is put into the FIFO.
    informer: Arc<Shared>,
}

impl Reflector {
    pub(crate) fn new(informer: &Arc<Shared>) -> Self {
        Self { informer: Arc::clone(informer) }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let (options, entropy) = (&self.informer.options.reflector, self.informer.entropy.clone());
        let backoff = Backoff::new(options.backoff_base, options.backoff_cap, entropy);
        let mut position = Position::new(self.informer.source.offers_watch_list(), backoff);
        loop {
            let attempt = match position.version.clone() {
                None if position.streams() => self.stream_or_list(&mut position).await,
                None => self.list_pages(&mut position).await,
                Some(version) => self.watch(&mut position, version).await,
            };
            self.informer.apply_burst();
            self.informer.intake.settle(&self.informer.clock);
            let Err(error) = attempt else { continue };
            let delay = self.after(&error, &mut position).await;
            self.informer.clock.sleep(delay).await;
        }
    }

    /// A server may know of initial events and yet be unable to send them, such as kube-apiserver on
    /// an etcd without progress notifications; it says so like any other failure.
    async fn stream_or_list(&self, position: &mut Position) -> Result<(), ListWatchError> {
        let streamed = self.stream_list(position).await;
        if position.version.is_some() {
            return streamed;
        }
        match streamed {
            Err(ListWatchError::Refused(status)) if status.code >= 500 => {
                tracing::debug!(%status, "no initial events; listing instead");
                self.list_pages(position).await
            }
            Err(error) => {
                position.streamed_in_vain();
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Asks for all objects and what follows in one watch.
    async fn stream_list(&self, position: &mut Position) -> Result<(), ListWatchError> {
        let (asked, life) = (self.informer.indexer.epoch(), self.draw_life());
        let mut stream = match self.open(None, life).await {
            Err(ListWatchError::Refused(status)) if is_misunderstood(&status) => {
                position.stop_streaming();
                return Ok(());
            }
            stream => stream?,
        };
        let mut items = BTreeMap::new();
        let (began, mut last_addition) =
            (self.informer.clock.moment(), self.informer.clock.moment());
        loop {
            let patience = INITIAL_PATIENCE
                .saturating_sub(self.informer.clock.passed_since(&last_addition))
                .min(LONGEST_INITIAL.saturating_sub(self.informer.clock.passed_since(&began)));
            let event = match self.next(&mut stream, patience).await {
                Ok(Some(event)) if !patience.is_zero() => event,
                Ok(_) | Err(ListWatchError::Silent) => {
                    position.stop_streaming();
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            match event {
                WatchEvent::Added(item) | WatchEvent::Modified(item) => {
                    let item = self.informer.intake.admit_known(item, &self.informer.indexer);
                    if items.insert(item.key().clone(), item).is_none() {
                        last_addition = self.informer.clock.moment();
                    }
                }
                WatchEvent::Deleted(item) => drop(items.remove(item.key())),
                WatchEvent::Bad { error, .. } => self.note_bad(&error),
                WatchEvent::Error(status) => return Err(ListWatchError::Refused(status)),
                WatchEvent::Bookmark { resource_version, initial_events_end: true } => {
                    let items = items.into_values().collect();
                    self.take_over(position, items, asked, resource_version).await;
                    return self.follow(position, stream, life).await;
                }
                WatchEvent::Bookmark { .. } => {}
            }
        }
    }

    async fn list_pages(&self, position: &mut Position) -> Result<(), ListWatchError> {
        let asked = self.informer.indexer.epoch();
        let (mut items, mut version, mut token) = (Vec::new(), None, None);
        loop {
            let request = ListRequest {
                selection: self.informer.options.selection.clone(),
                limit: position.pages.then_some(self.informer.options.reflector.page_size),
                continue_token: token.take(),
                resource_version: None,
            };
            let is_continued = request.continue_token.is_some();
            let page = tokio::select! {
                page = self.informer.source.list(request) => page,
                () = self.informer.clock.sleep(LIST_PATIENCE) => Err(ListWatchError::Silent),
            };
            let page = page.inspect_err(|error| {
                let is_too_late = is_continued && error.status().is_some_and(is_expired);
                // One in a single piece that has failed was that once.
                position.pages = !(position.pages && is_too_late);
            })?;
            page.bad.iter().for_each(|bad| self.note_bad(bad));
            let admitted = page.items.into_iter();
            items.extend(
                admitted.map(|item| self.informer.intake.admit_known(item, &self.informer.indexer)),
            );
            // The first page's version: whatever happened while the others were read comes again.
            let version = version.get_or_insert(page.resource_version);
            token = page.continue_token;
            if token.is_none() {
                let version = mem::take(version);
                self.take_over(position, items, asked, version).await;
                return Ok(());
            }
        }
    }

    async fn take_over(
        &self,
        position: &mut Position,
        items: Vec<Item>,
        asked: Epoch,
        version: String,
    ) {
        let listing = Listing { asked, version: version_number(&version) };
        self.informer.fifo.replace(items, listing, &self.informer.indexer);
        self.informer.apply_all().await;
        position.absence = None;
        self.informer.report.send_modify(|report| {
            report.lists += 1;
            report.resource_version = Some(version.clone());
        });
        position.listed_at(version);
    }

    fn note_bad(&self, bad: &BadItem) {
        tracing::warn!(error = %describe(bad), "an object cannot be cached");
        self.informer.report.send_modify(|report| report.bad_items += 1);
    }

    async fn watch(&self, position: &mut Position, from: String) -> Result<(), ListWatchError> {
        let life = self.draw_life();
        let followed = match self.open(Some(from), life).await {
            Ok(stream) => self.follow(position, stream, life).await,
            Err(error) => Err(error),
        };
        position.leave_nowhere();
        followed
    }

    async fn open(
        &self,
        from: Option<String>,
        life: Duration,
    ) -> Result<WatchStream, ListWatchError> {
        let request = WatchRequest {
            selection: self.informer.options.selection.clone(),
            initial_events: from.is_none(),
            resource_version: from,
            timeout_seconds: u32::try_from(life.as_secs()).unwrap_or(u32::MAX),
        };
        let stream = tokio::select! {
            stream = self.informer.source.watch(request) => stream?,
            () = self.informer.clock.sleep(LIST_PATIENCE) => return Err(ListWatchError::Silent),
        };
        self.informer.report.send_modify(|report| {
            report.watches += 1;
            report.trouble = None;
        });
        Ok(stream)
    }

    /// Passes events on until the watch ends.
    async fn follow(
        &self,
        position: &mut Position,
        mut stream: WatchStream,
        life: Duration,
    ) -> Result<(), ListWatchError> {
        let (began, mut is_in_vain) = (self.informer.clock.moment(), true);
        let mut silence = pin!(self.informer.clock.sleep(life.saturating_add(WATCH_GRACE)));
        loop {
            let event = tokio::select! {
                biased;
                event = self.next_of_burst(&mut stream) => event,
                () = &mut silence => return Err(ListWatchError::Silent),
            };
            let Some(event) = event.transpose()? else { break };
            self.pass_on(position, event).await?;
            is_in_vain = false;
            position.made_progress();
            // Nobody is woken for that: it happens with every event.
            self.informer.report.send_if_modified(|report| {
                report.resource_version.clone_from(&position.version);
                false
            });
        }
        if is_in_vain && self.informer.clock.passed_since(&began) < GOOD_LIFE {
            return Err(ListWatchError::Closed);
        }
        position.backoff.reset();
        Ok(())
    }

    async fn pass_on(
        &self,
        position: &mut Position,
        event: WatchEvent,
    ) -> Result<(), ListWatchError> {
        let (delta, item, advanced): (fn(Item) -> Delta, _, _) = match event {
            WatchEvent::Added(item) => {
                let advanced = position.advance_with_addition(item.resource_version());
                (Delta::Added, item, advanced)
            }
            WatchEvent::Modified(item) => {
                let advanced = position.advance(item.resource_version());
                (Delta::Updated, item, advanced)
            }
            WatchEvent::Deleted(item) => {
                let advanced = position.advance(item.resource_version());
                (Delta::Deleted, item, advanced)
            }
            WatchEvent::Bookmark { resource_version, .. } => {
                position.advance(&resource_version)?;
                self.informer.fifo.reach(&resource_version);
                self.informer.intake.settle(&self.informer.clock);
                return Ok(());
            }
            WatchEvent::Bad { resource_version, error } => {
                self.note_bad(&error);
                // Which may be one of those with which a watch from nowhere begins.
                position.advance_with_addition(&resource_version)?;
                return Ok(());
            }
            WatchEvent::Error(status) => return Err(ListWatchError::Refused(status)),
        };
        if advanced? == Advanced::No {
            return Ok(());
        }
        let item = self.informer.intake.admit_recent(item, &self.informer.clock);
        if self.informer.fifo.push(delta(item)) {
            self.informer.apply_burst();
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The next event. Before it waits for one, what came so far is acted on.
    async fn next_of_burst(
        &self,
        stream: &mut WatchStream,
    ) -> Option<Result<WatchEvent, ListWatchError>> {
        poll_fn(|context| {
            let event = stream.poll_next_unpin(context);
            if !matches!(event, Poll::Ready(Some(Ok(_)))) {
                self.informer.apply_burst();
            }
            event
        })
        .await
    }

    /// The next event within `patience`; None at the end of the watch.
    async fn next(
        &self,
        stream: &mut WatchStream,
        patience: Duration,
    ) -> Result<Option<WatchEvent>, ListWatchError> {
        tokio::select! {
            biased;
            event = stream.next() => event.transpose(),
            () = self.informer.clock.sleep(patience) => Err(ListWatchError::Silent),
        }
    }

    /// Decides where to go on after a failure, and says when.
    async fn after(&self, error: &ListWatchError, position: &mut Position) -> Duration {
        tracing::debug!(error = %describe(error), version = ?position.version, "list or watch failed");
        self.informer.report.send_modify(|report| {
            report.failures += 1;
            report.trouble = Some(match error.status() {
                Some(status) if status.code == 404 => format!(
                    "{}; apply the CRD of the resource if it has one",
                    describe(error).trim_end()
                ),
                _ => describe(error),
            });
        });
        let delay = position.backoff.next_delay();
        position.fall_back(error);
        match error.status() {
            Some(status) if status.code == 404 => self.note_absence(position).await,
            _ => position.absence = None,
        }
        let details = error.status().and_then(|status| status.details.as_ref());
        let advice = details.map_or(0, |details| details.retry_after_seconds);
        delay.max(Duration::from_secs(advice.into()))
    }

    async fn note_absence(&self, position: &mut Position) {
        let (since, count) =
            position.absence.get_or_insert_with(|| (self.informer.clock.moment(), 0));
        *count += 1;
        let is_long =
            *count >= NO_ACCIDENT && self.informer.clock.passed_since(since) >= LONG_ABSENCE;
        if is_long && mem::take(&mut position.listed) {
            let listing = Listing { asked: self.informer.indexer.epoch(), version: None };
            self.informer.fifo.replace(Vec::new(), listing, &self.informer.indexer);
            self.informer.apply_all().await;
        }
    }

    /// Different for each watch, so that those of many clients do not end together.
    fn draw_life(&self) -> Duration {
        let base = self.informer.options.reflector.watch_timeout;
        let nanos = u64::try_from(base.as_nanos()).unwrap_or(u64::MAX);
        base.saturating_add(Duration::from_nanos(self.informer.entropy.below(nanos)))
    }
}

fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
