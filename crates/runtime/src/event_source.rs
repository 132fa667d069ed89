//! The sources of a controller's queue: [`Mapper`] maps an object to the keys to reconcile,
//! `EnqueueHandler` adds the keys of the events of one informer to the queue, and `EventSources` are
//! all handlers and channels of a controller.
//!
//! ```text
//! Pod web-1 changed ──▶ Mapper::owner::<CustomPod>() ──▶ CustomPod default/web
//! ```

use std::fmt;
use std::sync::Arc;

use kube_core::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::controller::is_namespaced;
use crate::reconcile_history::{Cause, ReconcileHistory};
use crate::{DynamicKind, Predicate, Request};
use informer::work_queue::Priority;
use informer::{
    DecodeFailures, EventHandler, HandlerOptions, Item, ObjectEvent, SharedInformer, WorkQueue,
};
use keel::Tasks;
use machinery::GroupVersion;

/// The index of objects by the uid of their controller. The cache of an
/// [owned](crate::ControllerBuilder::owns) kind has it after its controller was
/// [added](crate::Manager::add), and every other cache after the first call of
/// [`controlled_by`](crate::ListerExt::controlled_by), which most operators use instead.
///
/// A uid is what the object says: in another namespace than that of its owner, it is a false one,
/// which the caller must not count.
///
/// ```no_run
/// # use {k8s_openapi::api::core::v1::Pod, runtime::{CONTROLLER_INDEX, Lister}};
/// # fn example(pods: Lister<Pod>, uid: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let owned = pods.by_index(CONTROLLER_INDEX, uid)?.objects;
/// # drop(owned);
/// # Ok(())
/// # }
/// ```
pub const CONTROLLER_INDEX: &str = "controller";

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Mapper(MapperKind);

#[derive(Clone)]
enum MapperKind {
    OwnKey,
    Custom(Arc<Map>),
}

type Map = dyn Fn(&Item) -> Vec<Request> + Send + Sync;

impl Mapper {
    /// Maps an object to its own key.
    pub fn itself() -> Self {
        Self(MapperKind::OwnKey)
    }

    /// Maps an object to its controller, if that is a `K` of any version.
    pub fn owner<K: Resource<DynamicType = (), Scope: 'static>>() -> Self {
        Self::owner_of_kind(&K::group(&()), &K::kind(&()), is_namespaced::<K>())
    }

    /// Maps an object to its controller, if that is of this kind, in any version.
    ///
    /// ```no_run
    /// # use runtime::{DynamicKind, Mapper};
    /// # fn example(kind: &DynamicKind) {
    /// let mapper = Mapper::dynamic_owner(kind);
    /// # drop(mapper);
    /// # }
    /// ```
    pub fn dynamic_owner(kind: &DynamicKind) -> Self {
        Self::owner_of_kind(&kind.resource.group, &kind.resource.kind, kind.is_namespaced)
    }

    fn owner_of_kind(group: &str, kind: &str, is_namespaced: bool) -> Self {
        let (group, kind) = (group.to_owned(), kind.to_owned());
        Self::custom(move |item| {
            let owner = controller_of(item);
            let owner = owner.filter(|owner| owner.kind == kind && owner.group() == group);
            // References have no namespace: the owner is in the same one, or cluster-scoped.
            let namespace = if is_namespaced { item.namespace() } else { "" };
            owner.map(|owner| Request::new(namespace, &owner.name)).into_iter().collect()
        })
    }

    /// Maps an object to the objects that refer to it: those that `index` has under its key.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{core::v1::Secret, networking::v1::Ingress};
    /// # use runtime::{Controller, Manager, Mapper};
    /// # fn example(manager: &Manager) {
    /// let ingresses = manager.informer::<Ingress>();
    /// ingresses.indexer().add_typed_index("secret", |ingress: &Ingress| {
    ///     let namespace = ingress.metadata.namespace.as_deref().unwrap_or_default();
    ///     let tls = ingress.spec.as_ref().and_then(|spec| spec.tls.as_deref()).unwrap_or_default();
    ///     let names = tls.iter().filter_map(|tls| tls.secret_name.as_deref());
    ///     names.map(|name| format!("{namespace}/{name}")).collect()
    /// });
    /// let controller =
    ///     Controller::for_::<Ingress>().watches::<Secret>(Mapper::by_index(&ingresses, "secret"));
    /// # drop(controller);
    /// # }
    /// ```
    pub fn by_index(objects: &SharedInformer, index: &str) -> Self {
        let (objects, index) = (Arc::clone(objects.indexer()), index.to_owned());
        Self::custom(move |item| match objects.by_index(&index, &item.key().to_string()) {
            Ok(found) => found.iter().map(|object| object.key().clone()).collect(),
            Err(error) => {
                tracing::error!(%error, "cannot map an object to its requests");
                Vec::new()
            }
        })
    }

    /// Maps an object of a Rust type with `map`. An object that does not decode is logged as a warning,
    /// once, and maps to nothing.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use runtime::{Mapper, Request};
    ///
    /// let node_of = Mapper::typed(|pod: &Pod| {
    ///     let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    ///     node.map(|node| Request::new("", node)).into_iter().collect()
    /// });
    /// # drop(node_of);
    /// ```
    pub fn typed<T: DeserializeOwned>(
        map: impl Fn(&T) -> Vec<Request> + Send + Sync + 'static,
    ) -> Self {
        let failures = DecodeFailures::new("the objects that are mapped to requests");
        Self::custom(move |item| {
            failures.decode(item).map(|object| map(&object)).unwrap_or_default()
        })
    }

    /// Maps an object with `map`. An event for which it panics is lost for this controller.
    pub fn custom(map: impl Fn(&Item) -> Vec<Request> + Send + Sync + 'static) -> Self {
        Self(MapperKind::Custom(Arc::new(map)))
    }

    /// The keys to reconcile for `item`.
    pub fn map(&self, item: &Item) -> Vec<Request> {
        match &self.0 {
            MapperKind::OwnKey => vec![item.key().clone()],
            MapperKind::Custom(map) => map(item),
        }
    }
}

impl fmt::Debug for Mapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mapper")
    }
}

/// The values of the [`CONTROLLER_INDEX`].
pub(crate) fn controller_uid(item: &Item) -> Vec<String> {
    controller_of(item).map(|owner| owner.uid).into_iter().collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl OwnerReference {
    fn group(&self) -> String {
        self.api_version.parse::<GroupVersion>().map(|it| it.group).unwrap_or_default()
    }
}

fn controller_of(item: &Item) -> Option<OwnerReference> {
    let owners = item.decode_metadata::<Vec<OwnerReference>>("ownerReferences");
    owners.ok().flatten()?.into_iter().find(|owner| owner.controller)
}

/// All sources of a controller's queue. They are opened when the workers start, so that a replica that
/// is not the leader has complete caches and an empty queue.
///
/// If the queue were filled earlier, it would grow with every object, and its keys would have aged so
/// much that their priority exceeds that of new changes.
pub(crate) struct EventSources {
    pub(crate) handlers: Vec<(SharedInformer, HandlerOptions, EnqueueHandler)>,
    pub(crate) channels: Vec<mpsc::Receiver<Request>>,
}

impl EventSources {
    /// Queues all cached objects as initial ones, and then all changes until `tasks` end.
    pub(crate) fn open(
        self,
        queue: &WorkQueue<Request>,
        history: &Arc<ReconcileHistory>,
        tasks: &Tasks,
    ) {
        for (informer, options, handler) in self.handlers {
            informer.add_handler(Arc::new(handler), &options);
        }
        for mut requests in self.channels {
            let (queue, history) = (queue.clone(), Arc::clone(history));
            let shutdown = tasks.shutdown();
            tasks.spawn("channel", async move {
                let enqueue = async {
                    while let Some(request) = requests.recv().await {
                        history.add_cause(&request, Cause::Channel);
                        queue.add(request);
                    }
                };
                tokio::select! {
                    () = enqueue => {}
                    () = shutdown => {}
                }
            });
        }
    }
}

/// Adds the keys of the events of one informer to a controller's queue.
pub(crate) struct EnqueueHandler {
    /// The kind of the informer's objects.
    pub(crate) kind: Arc<str>,
    pub(crate) predicate: Predicate,
    pub(crate) mapper: Mapper,
    pub(crate) queue: WorkQueue<Request>,
    pub(crate) history: Arc<ReconcileHistory>,
}

impl EnqueueHandler {
    /// Adds the keys of an event to the queue.
    fn enqueue(&self, event: &ObjectEvent) {
        if !self.predicate.accepts(event) {
            return;
        }
        let (before, priority) = match event {
            ObjectEvent::Updated { old, new }
                if old.resource_version() != new.resource_version() =>
            {
                (Some(old), Priority::NORMAL)
            }
            ObjectEvent::Updated { .. } | ObjectEvent::Added { is_initial: true, .. } => {
                (None, Priority::LOW)
            }
            ObjectEvent::Added { .. } | ObjectEvent::Deleted { .. } => (None, Priority::NORMAL),
        };
        let MapperKind::Custom(map) = &self.mapper.0 else {
            return self.add(event.item().key().clone(), event, priority);
        };
        let mut requests = map(event.item());
        // The keys of the previous state are reconciled, too.
        requests.extend(before.into_iter().flat_map(|old| map(old)));
        requests.sort_unstable();
        requests.dedup();
        for request in requests {
            self.add(request, event, priority);
        }
    }

    fn add(&self, request: Request, event: &ObjectEvent, priority: Priority) {
        self.history.add_cause(&request, Cause::of_event(&self.kind, event));
        self.queue.add_with_priority(request, priority);
    }
}

impl EventHandler for EnqueueHandler {
    fn on_add(&self, item: &Item, is_initial: bool) {
        self.enqueue(&ObjectEvent::Added { item: item.clone(), is_initial });
    }

    fn on_update(&self, old: &Item, new: &Item) {
        self.enqueue(&ObjectEvent::Updated { old: old.clone(), new: new.clone() });
    }

    fn on_delete(&self, item: &Item, is_final_state_unknown: bool) {
        self.enqueue(&ObjectEvent::Deleted { item: item.clone(), is_final_state_unknown });
    }

    fn is_inline(&self) -> bool {
        matches!(self.mapper.0, MapperKind::OwnKey) && self.predicate.accepts_all()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn owned(references: &str) -> Item {
        let json = format!(
            r#"{{"metadata":{{"namespace":"n","name":"a","ownerReferences":[{references}]}}}}"#
        );
        Item::parse(json.into_bytes()).unwrap()
    }

    #[test]
    fn only_the_controller_of_the_right_kind_is_the_owner() {
        let set = r#"{"apiVersion":"apps/v1beta2","kind":"ReplicaSet","name":"r","uid":"u","controller":true}"#;
        let other = r#"{"apiVersion":"v1","kind":"ReplicaSet","name":"x","uid":"v"}"#;
        let item = owned(&format!("{other},{set}"));
        assert_eq!(Mapper::owner::<ReplicaSet>().map(&item), [Request::new("n", "r")]);
        assert_eq!(Mapper::owner::<Deployment>().map(&item), []);
        assert_eq!(controller_uid(&item), ["u"]);
        assert_eq!(Mapper::owner::<ReplicaSet>().map(&owned(other)), []);
    }

    #[test]
    fn a_cluster_scoped_owner_is_mapped_without_a_namespace() {
        let node = r#"{"apiVersion":"v1","kind":"Node","name":"x","uid":"u","controller":true}"#;
        assert_eq!(Mapper::owner::<Node>().map(&owned(node)), [Request::new("", "x")]);
    }
}
