//! [`ResourceDiscovery`]: the resources that the server serves, from its aggregated discovery.
//!
//! It watches CRDs and `APIService`s, and reads the discovery documents again when one of them changes.
//! It reads nothing else and writes nothing. A group whose server is not available is reported as a
//! [failure](DiscoveredResources::failures) and does not hide the other groups.

mod documents;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::sync::{Notify, watch};

use crate::controller_context::ControllerContext;
use documents::DiscoveryReader;
use keel::Clock;
use machinery::GroupVersion;
use runtime::client::ClientListWatch;
use runtime::informer::{
    Form, Item, ListWatch, Reflector, ReflectorOptions, ReflectorStore, Scope, Transaction,
};
use runtime::kube_client;

/// The time after which discovery is repeated if it has failed, or if a group was not available.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The characters of a name that are escaped in a path.
const ESCAPED_IN_SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A resource in one of its versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiResource {
    /// The group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The group and version as in `apiVersion`.
    pub api_version: String,
    /// The plural.
    pub plural: String,
    /// The kind of the objects.
    pub kind: String,
    /// Whether the objects are namespaced.
    pub is_namespaced: bool,
    /// The verbs of the resource.
    pub verbs: Vec<String>,
    /// Whether this is the version that the server prefers of those in which it serves the resource.
    pub is_preferred: bool,
}

impl ApiResource {
    /// Whether the resource supports all of these verbs.
    pub(crate) fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|it| it == verb))
    }

    /// The path of the objects of a namespace; the namespace of cluster-scoped resources is ignored.
    pub(crate) fn collection_path(&self, namespace: &str) -> String {
        let prefix = if self.group.is_empty() { "/api" } else { "/apis" };
        let (api_version, plural) = (&self.api_version, &self.plural);
        if self.is_namespaced && !namespace.is_empty() {
            return format!("{prefix}/{api_version}/namespaces/{}/{plural}", escaped(namespace));
        }
        format!("{prefix}/{api_version}/{plural}")
    }

    /// The path of an object.
    pub(crate) fn object_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection_path(namespace), escaped(name))
    }

    /// All objects of the resource, in this form.
    pub(crate) fn scope(&self, form: Form) -> Scope {
        let group_version = GroupVersion::new(&self.group, &self.version);
        Scope { form, ..Scope::all(group_version, &self.plural) }
    }
}

/// A text as a segment of a path; a slash in it remains one.
pub(crate) fn escaped(segment: &str) -> Cow<'_, str> {
    utf8_percent_encode(segment, ESCAPED_IN_SEGMENT).into()
}

/// The result of one discovery.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DiscoveredResources {
    /// All resources in all versions, without subresources.
    pub resources: Vec<Arc<ApiResource>>,
    /// The group versions whose resources are not known or outdated, and the reasons.
    pub failures: BTreeMap<String, String>,
    /// The positions in `resources`, by `apiVersion` and kind.
    by_kind: HashMap<String, HashMap<String, usize>>,
}

impl DiscoveredResources {
    fn new(resources: Vec<ApiResource>, failures: BTreeMap<String, String>) -> Self {
        let mut by_kind = HashMap::<String, HashMap<String, usize>>::new();
        for (index, resource) in resources.iter().enumerate() {
            let kinds = by_kind.entry(resource.api_version.clone()).or_default();
            kinds.entry(resource.kind.clone()).or_insert(index);
        }
        Self { resources: resources.into_iter().map(Arc::new).collect(), failures, by_kind }
    }

    /// The resource of a kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ApiResource>> {
        let index = *self.by_kind.get(api_version)?.get(kind)?;
        self.resources.get(index)
    }

    /// The resources in their preferred versions.
    pub(crate) fn preferred(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.resources.iter().filter(|resource| resource.is_preferred)
    }

    /// The groups that have a [failure](Self::failures).
    pub(crate) fn failed_groups(&self) -> HashSet<&str> {
        let group = |version: &str| version.rfind('/').unwrap_or(0);
        self.failures.keys().map(|version| &version[..group(version)]).collect()
    }

    /// The failures as client-go's `ErrGroupDiscoveryFailed` prints them.
    pub(crate) fn failure_message(&self) -> Option<String> {
        if self.failures.is_empty() {
            return None;
        }
        let failures: Vec<String> =
            self.failures.iter().map(|(version, error)| format!("{version}: {error}")).collect();
        let failures = failures.join(", ");
        Some(format!("unable to retrieve the complete list of server APIs: {failures}"))
    }
}

/// See the [module documentation](self). Clones share the result.
#[derive(Clone)]
pub(crate) struct ResourceDiscovery(Arc<DiscoveryState>);

struct DiscoveryState {
    /// Locked during a discovery, so that there is one at a time.
    reader: tokio::sync::Mutex<DiscoveryReader>,
    /// The last result; `None` before the first.
    discovered: watch::Sender<Option<Arc<DiscoveredResources>>>,
    /// A CRD or an `APIService` has changed.
    changed: Notify,
    clock: Clock,
}

impl ResourceDiscovery {
    /// Starts the watches of CRDs and `APIService`s.
    pub(crate) fn start(cx: &ControllerContext) -> Self {
        let discovery = Self(Arc::new(DiscoveryState {
            reader: tokio::sync::Mutex::new(DiscoveryReader::new(cx.reader.clone())),
            discovered: watch::Sender::new(None),
            changed: Notify::new(),
            clock: cx.clock().clone(),
        }));
        for (group, resource) in [
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("apiregistration.k8s.io", "apiservices"),
        ] {
            let reflector = discovery.change_reflector(cx, group, resource);
            let stop = cx.tasks().shutdown();
            cx.tasks().spawn("discovery watch", async move {
                tokio::select! {
                    () = stop => {}
                    () = reflector.run() => {}
                }
            });
        }
        let (running, stop) = (discovery.clone(), cx.tasks().shutdown());
        cx.tasks().spawn("discovery", async move {
            tokio::select! {
                () = stop => {}
                () = running.follow() => {}
            }
        });
        discovery
    }

    /// Notifies about each change of a resource.
    fn change_reflector(
        &self,
        cx: &ControllerContext,
        group: &str,
        resource: &str,
    ) -> Reflector<Item> {
        let scope = Scope::all(GroupVersion::new(group, "v1"), resource);
        let scope = Scope { form: Form::Metadata, ..scope };
        let source: Arc<dyn ListWatch> = Arc::new(ClientListWatch::new(cx.reader.clone(), &scope));
        let store = Arc::new(ChangeStore(self.clone()));
        Reflector::new(source, store, ReflectorOptions::default(), cx.clock(), cx.entropy())
    }

    /// Repeats the discovery after each change, and after a failure.
    async fn follow(&self) {
        loop {
            let changed = self.0.changed.notified();
            let is_complete = match self.refresh().await {
                Ok(discovered) => discovered.failures.is_empty(),
                Err(error) => {
                    tracing::warn!(%error, "discovery failed");
                    false
                }
            };
            tokio::select! {
                () = changed => {}
                () = self.0.clock.sleep(RETRY_INTERVAL), if !is_complete => {}
            }
        }
    }

    /// Discovers the resources that the server serves now.
    pub(crate) async fn refresh(&self) -> kube_client::Result<Arc<DiscoveredResources>> {
        let mut reader = self.0.reader.lock().await;
        let changed = reader.read().await?;
        if let Some(discovered) = changed {
            self.0.discovered.send_replace(Some(Arc::new(discovered)));
        }
        Ok(self.0.discovered.borrow().clone().unwrap_or_default())
    }

    /// The last result; empty before the first.
    pub(crate) fn discovered(&self) -> Arc<DiscoveredResources> {
        self.0.discovered.borrow().clone().unwrap_or_default()
    }

    /// The results, each of which differs from the one before; `None` before the first.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<DiscoveredResources>>> {
        self.0.discovered.subscribe()
    }
}

/// Keeps no objects, and notifies about changes.
struct ChangeStore(ResourceDiscovery);

impl ReflectorStore<Item> for ChangeStore {
    fn replace<'a>(&'a self, _: Vec<Item>, _: &'a str) -> BoxFuture<'a, ()> {
        self.0.0.changed.notify_one();
        Box::pin(async {})
    }

    fn apply(&self, _: Vec<Transaction<Item>>) {
        self.0.0.changed.notify_one();
    }
}

impl std::fmt::Debug for ResourceDiscovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResourceDiscovery of {} resources", self.discovered().resources.len())
    }
}
