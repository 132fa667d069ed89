//! [`InformerFactory`]: informers that are shared, one for each [`Scope`].
//!
//! ```
//! use informer::{Form, InformerFactory, InformerOptions, NeverSynced, Scope};
//! use informer::informer_factory::SourceFactory;
//! use keel::{Clock, Entropy, Tasks};
//! use machinery::GroupVersion;
//!
//! async fn mirror(source_factory: SourceFactory) -> Result<usize, NeverSynced> {
//!     let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//!     let options = InformerOptions::default();
//!     let factory = InformerFactory::new(source_factory, options, &clock, &entropy, &tasks);
//!     let secrets = Scope::all(GroupVersion::new("", "v1"), "secrets");
//!     let metadata_only = Scope { form: Form::Metadata, ..secrets };
//!     let informer = factory.informer(&metadata_only); // each call returns the same informer
//!     factory.start();
//!     factory.wait_for_sync().await?;
//!     Ok(informer.indexer().len())
//! }
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{InformerOptions, ListWatch, Selection, SharedInformer};
use keel::{Clock, Entropy, Tasks, UncleanStop};
use machinery::GroupVersion;

/// The objects that an informer caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// `apps/v1`
    pub group_version: GroupVersion,
    /// The plural, `deployments`.
    pub resource: String,
    /// Selects some of the objects.
    pub selection: Selection,
    /// Whole objects, or only their metadata.
    pub form: Form,
}

/// The requested part of each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// The whole object.
    #[default]
    Whole,
    /// `PartialObjectMetadata`: the server leaves out everything else.
    Metadata,
}

impl Scope {
    /// All objects of a resource, whole.
    ///
    /// ```
    /// # use {informer::Scope, machinery::GroupVersion};
    /// let scope = Scope::all(GroupVersion::new("apps", "v1"), "deployments");
    /// assert_eq!(scope.to_string(), "deployments.apps/v1");
    /// ```
    pub fn all(group_version: GroupVersion, resource: &str) -> Self {
        Self {
            group_version,
            resource: resource.to_owned(),
            selection: Selection::default(),
            form: Form::default(),
        }
    }
}

impl fmt::Display for Scope {
    /// Two scopes with the same text are equal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.group_version)?;
        if let Some(namespace) = &self.selection.namespace {
            write!(f, " in {namespace}")?;
        }
        if !self.selection.labels.is_empty() {
            write!(f, " with labels {:?}", self.selection.labels.to_string())?;
        }
        if !self.selection.fields.is_empty() {
            write!(f, " with fields {:?}", self.selection.fields.to_string())?;
        }
        if self.selection.includes_uninitialized {
            f.write_str(" and uninitialized ones")?;
        }
        match self.form {
            Form::Whole => Ok(()),
            Form::Metadata => f.write_str(", metadata only"),
        }
    }
}

/// Makes the source of an informer, such as a client, or an API server in the same process.
pub type SourceFactory = Box<dyn Fn(&Scope) -> Arc<dyn ListWatch> + Send + Sync>;

/// See the [module documentation](self).
pub struct InformerFactory {
    source_factory: SourceFactory,
    defaults: InformerOptions,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    /// By the text of their scope.
    informers: Mutex<BTreeMap<String, FactoryEntry>>,
}

struct FactoryEntry {
    scope: Scope,
    informer: SharedInformer,
}

/// These informers were stopped before their first list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the first list: {}", .0.join(", "))]
pub struct NeverSynced(pub Vec<String>);

impl InformerFactory {
    /// A factory of informers with the options `defaults` and the selection of their scope.
    pub fn new(
        source_factory: impl Fn(&Scope) -> Arc<dyn ListWatch> + Send + Sync + 'static,
        defaults: InformerOptions,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        Self {
            source_factory: Box::new(source_factory),
            defaults,
            clock: clock.clone(),
            entropy: entropy.clone(),
            tasks: tasks.child("informers"),
            informers: Mutex::default(),
        }
    }

    /// The informer of this scope, which is made by the first call.
    pub fn informer(&self, scope: &Scope) -> SharedInformer {
        self.informer_with(scope, self.defaults.clone())
    }

    /// The informer of this scope. The first call makes it with `options`.
    pub fn informer_with(&self, scope: &Scope, options: InformerOptions) -> SharedInformer {
        let mut informers = self.lock();
        let entry = informers.entry(scope.to_string()).or_insert_with(|| {
            let options = InformerOptions { selection: scope.selection.clone(), ..options };
            let source = (self.source_factory)(scope);
            let informer =
                SharedInformer::new(source, options, &self.clock, &self.entropy, &self.tasks);
            FactoryEntry { scope: scope.clone(), informer }
        });
        entry.informer.clone()
    }

    /// Starts all informers that do not run yet.
    pub fn start(&self) {
        for entry in self.lock().values() {
            entry.informer.start();
        }
    }

    /// Waits until the first lists of all informers are in the cache.
    pub async fn wait_for_sync(&self) -> Result<(), NeverSynced> {
        let scope_and_synced =
            |(scope, entry): (&String, &FactoryEntry)| (scope.clone(), entry.informer.has_synced());
        let waiting: Vec<_> = self.lock().iter().map(scope_and_synced).collect();
        let mut never = Vec::new();
        for (scope, mut synced) in waiting {
            if !synced.wait().await {
                never.push(scope);
            }
        }
        if never.is_empty() { Ok(()) } else { Err(NeverSynced(never)) }
    }

    /// The scopes of all informers, as text.
    pub fn scopes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// All informers, by the text of their scope.
    pub fn informers(&self) -> Vec<(String, SharedInformer)> {
        let informers = self.lock();
        informers.iter().map(|(scope, it)| (scope.clone(), it.informer.clone())).collect()
    }

    /// The informers of a resource, of any version, form and selection.
    pub fn of_resource(&self, group: &str, resource: &str) -> Vec<(Scope, SharedInformer)> {
        let informers = self.lock();
        let is_of_resource = |entry: &&FactoryEntry| {
            entry.scope.group_version.group == group && entry.scope.resource == resource
        };
        let found = informers.values().filter(is_of_resource);
        found.map(|entry| (entry.scope.clone(), entry.informer.clone())).collect()
    }

    /// Stops all informers; aborts those that do not end within `timeout`.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), UncleanStop> {
        self.tasks.stop(timeout).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FactoryEntry>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
