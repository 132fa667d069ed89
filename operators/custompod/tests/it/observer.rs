//! [`Observer`]: watches the pods and their owner, and checks after every event that there are not
//! too many pods.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;

use crate::world::World;
use machinery::{GroupVersion, Value};
use runtime::Client;
use runtime::client::ClientListWatch;
use runtime::informer::{ListRequest, ListWatch, Scope, WatchEvent, WatchRequest, WatchStream};

const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);

/// See the [module documentation](self).
pub(crate) struct Observer {
    pods: WatchStream,
    custom_pods: WatchStream,
    /// The pods, and whether they are live: pending or running, and not being deleted.
    pub(crate) known: BTreeMap<String, bool>,
    status: Value,
    /// The desired numbers of pods, each with the revision of its request.
    desired: Vec<(u64, usize)>,
    /// The revisions at which the number of pods was as requested.
    settled: Vec<u64>,
    revision: u64,
}

impl Observer {
    /// Observes a new world, in which `replicas` pods are desired and none exists.
    pub(crate) async fn new(world: &World, replicas: usize) -> Self {
        let pods = Scope::all(GroupVersion::new("", "v1"), "pods");
        let custom_pods = Scope::all(GroupVersion::new("zhhnzw.mock.com", "v1"), "custompods");
        Self {
            pods: watch(&world.client, &pods).await,
            custom_pods: watch(&world.client, &custom_pods).await,
            known: BTreeMap::new(),
            status: Value::Null,
            desired: vec![(0, replicas)],
            settled: vec![0],
            revision: 0,
        }
    }

    /// Records a change of the desired number of pods.
    pub(crate) fn record_desired_replicas(&mut self, revision: u64, replicas: usize) {
        self.desired.push((revision, replicas));
    }

    /// Waits until the number of pods and the status are as requested.
    pub(crate) async fn settle(&mut self, world: &World) {
        let settling = async {
            while !self.is_settled() {
                self.read_next_event().await;
            }
        };
        let settled = tokio::time::timeout(SETTLE_TIMEOUT, settling).await.is_ok();
        let Self { known, status, desired, .. } = self;
        assert!(settled, "{known:?} {status} {desired:?}: {:#?}", world.causes());
        self.settled.push(self.revision);
    }

    pub(crate) async fn read_next_event(&mut self) {
        tokio::select! {
            event = self.pods.next() => self.see_pod(event.unwrap().unwrap()),
            event = self.custom_pods.next() => self.see_custom_pod(event.unwrap().unwrap()),
        }
    }

    pub(crate) fn live(&self) -> Vec<String> {
        self.known.iter().filter(|(_, is_live)| **is_live).map(|(name, _)| name.clone()).collect()
    }

    fn is_settled(&self) -> bool {
        let (revision, replicas) = *self.desired.last().unwrap();
        let live = self.live();
        let reported = (&self.status["replicas"], &self.status["podNames"]);
        // An earlier status may be equal.
        self.revision >= revision
            && live.len() == replicas
            && reported == (&Value::from(replicas), &Value::from(live))
    }

    fn see_pod(&mut self, event: WatchEvent) {
        let (item, is_gone) = match event {
            WatchEvent::Added(item) | WatchEvent::Modified(item) => (item, false),
            WatchEvent::Deleted(item) => (item, true),
            WatchEvent::Bookmark { .. } | WatchEvent::Bad { .. } | WatchEvent::Error(_) => return,
        };
        let object = item.object().unwrap();
        let is_live = matches!(object.str_at(&["status", "phase"]), "" | "Pending" | "Running")
            && object.deletion_timestamp().is_none();
        if is_gone {
            self.known.remove(item.name());
        } else {
            self.known.insert(item.name().to_owned(), is_live);
        }
        let revision: u64 = item.resource_version().parse().unwrap();
        let live = self.live();
        let max = self.max_desired(revision);
        assert!(live.len() <= max, "{live:?} at {revision}, but {:?}", self.desired);
    }

    /// The largest requested number between the last settled revision and `revision`: an operator
    /// may learn of a request late, but never create more pods.
    fn max_desired(&self, revision: u64) -> usize {
        let settled = self.settled.iter().rev().find(|at| **at <= revision).unwrap();
        let in_force = self.desired.iter().rposition(|(at, _)| at <= settled).unwrap();
        let candidates = self.desired[in_force..].iter().filter(|(at, _)| *at <= revision);
        candidates.map(|(_, replicas)| *replicas).max().unwrap()
    }

    fn see_custom_pod(&mut self, event: WatchEvent) {
        let (WatchEvent::Added(item) | WatchEvent::Modified(item)) = event else { return };
        self.revision = item.resource_version().parse().unwrap();
        self.status = item.object().unwrap().get(&["status"]).cloned().unwrap_or_default();
    }
}

async fn watch(client: &Client, scope: &Scope) -> WatchStream {
    let source = ClientListWatch::new(client.clone(), scope);
    let page = source.list(ListRequest::default()).await.unwrap();
    let request = WatchRequest {
        resource_version: Some(page.resource_version),
        timeout_seconds: Some(3600),
        ..WatchRequest::default()
    };
    source.watch(request).await.unwrap()
}
