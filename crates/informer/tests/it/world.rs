//! [`TestWorld`]: a server, an informer and a clock that the test drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::recorder::Recorder;
use crate::server::Server;
use informer::write_observer::{WriteObserver, is_last_state};
use informer::{HandlerOptions, InformerOptions, Item, ReflectorOptions, SharedInformer};
use keel::{Clock, Entropy, Tasks, Timestamp};

pub(crate) struct TestWorld {
    pub(crate) server: Server,
    pub(crate) informer: SharedInformer,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) options: InformerOptions,
}

impl TestWorld {
    /// An informer with pages of two objects, not started.
    pub(crate) fn new(entropy: &Entropy) -> Self {
        let reflector = ReflectorOptions { page_size: 2, ..ReflectorOptions::default() };
        Self::with(entropy, InformerOptions { reflector, ..InformerOptions::default() })
    }

    pub(crate) fn with(entropy: &Entropy, options: InformerOptions) -> Self {
        Self::on(&Clock::manual(Timestamp::from_seconds(0)), entropy, options)
    }

    /// An informer on this clock. The methods that move the clock need a manual one.
    pub(crate) fn on(clock: &Clock, entropy: &Entropy, options: InformerOptions) -> Self {
        let (server, tasks) = (Server::new(), Tasks::new());
        let source = Arc::new(server.clone());
        let informer = SharedInformer::new(source, options.clone(), clock, entropy, &tasks);
        Self { server, informer, clock: clock.clone(), tasks, options }
    }

    /// Adds a recording handler.
    pub(crate) fn record(&self) -> Arc<Recorder> {
        let recorder = Recorder::new();
        let handler: Arc<Recorder> = Arc::clone(&recorder);
        self.informer.add_handler(handler, &HandlerOptions::default());
        recorder
    }

    /// Observes the response to a write, as a controller runtime does.
    pub(crate) fn observe_write(&self, item: Item) {
        let observer = WriteObserver::new(&self.informer);
        if is_last_state(&item) {
            observer.observe_deletion(item.key(), item.uid());
        } else {
            observer.observe_write(item);
        }
    }

    /// The name and version of each cached object.
    pub(crate) fn cached(&self) -> BTreeMap<String, String> {
        let items = self.informer.indexer().list();
        let pair = |item: Item| (item.name().to_owned(), item.resource_version().to_owned());
        items.into_iter().map(pair).collect()
    }

    /// The name and version of each selected object on the server.
    pub(crate) fn on_server(&self) -> BTreeMap<String, String> {
        self.server.selected_versions(&self.options.selection)
    }

    /// Yields often enough that all tasks which are ready run until they wait.
    pub(crate) async fn quiesce(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock from deadline to deadline until `done`.
    pub(crate) async fn until(&self, what: &str, done: impl Fn() -> bool) {
        for _ in 0..2000 {
            self.quiesce().await;
            if done() {
                return;
            }
            if let Some(deadline) = self.clock.next_deadline() {
                self.clock.advance(deadline.since(self.clock.now()));
            }
        }
        panic!(
            "never {what}: cached {:?}, on the server {:?}, {:?}, last requests {:?}",
            self.cached(),
            self.on_server(),
            self.informer.reflector_status().borrow(),
            self.server.state().log.iter().rev().take(9).collect::<Vec<_>>()
        );
    }

    /// Waits until the informer has synced and its cache equals the server.
    pub(crate) async fn until_cache_equals_server(&self) {
        self.until("equal to the server", || {
            self.informer.has_synced().get() && self.cached() == self.on_server()
        })
        .await;
    }

    /// The kinds of requests since the last call: `list watch`.
    pub(crate) fn take_requests(&self) -> String {
        let log = std::mem::take(&mut self.server.state().log);
        let verbs: Vec<&str> = log.iter().filter_map(|entry| entry.split(' ').next()).collect();
        verbs.join(" ")
    }

    pub(crate) async fn stop(self) {
        self.tasks.stop(Duration::from_secs(5)).await.expect("no task panicked or hung");
    }
}
