//! [`InformerFactory`]: one informer per resource, scope and form, shared by all who ask for it.
//!
//! ```
//! use informer::{Form, InformerFactory, InformerOptions, NeverSynced, Scope};
//! use informer::informer_factory::MakeSource;
//! use keel::{Clock, Entropy, Tasks};
//! use machinery::GroupVersion;
//!
//! async fn mirror(make_source: MakeSource) -> Result<usize, NeverSynced> {
//!     let (clock, entropy, tasks) = (Clock::system(), Entropy::system(), Tasks::new());
//!     let options = InformerOptions::default();
//!     let factory = InformerFactory::new(make_source, options, &clock, &entropy, &tasks);
//!     let secrets = Scope::all(GroupVersion::new("", "v1"), "secrets");
//!     let names_only = Scope { form: Form::Metadata, ..secrets };
//!     let informer = factory.informer(&names_only); // the same for whoever asks
//!     factory.start();
//!     factory.wait_for_sync().await?;
//!     Ok(informer.indexer().len())
//! }
//! ```

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keel::{Clock, Entropy, Tasks, Unclean};
use machinery::GroupVersion;

use crate::{InformerOptions, ListWatch, Selection, SharedInformer};

/// What an informer is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// `apps/v1`
    pub group_version: GroupVersion,
    /// The plural, `deployments`.
    pub resource: String,
    /// Which of the objects.
    pub selection: Selection,
    /// Whole objects, or only their metadata.
    pub form: Form,
}

/// How much of each object is asked for.
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
    /// Two scopes that print the same are the same.
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
        match self.form {
            Form::Whole => Ok(()),
            Form::Metadata => f.write_str(", metadata only"),
        }
    }
}

/// Makes the source of an informer: a client, or an API server in the same process.
pub type MakeSource = Box<dyn Fn(&Scope) -> Arc<dyn ListWatch> + Send + Sync>;

/// See the [module documentation](self).
pub struct InformerFactory {
    make_source: MakeSource,
    defaults: InformerOptions,
    clock: Clock,
    entropy: Entropy,
    tasks: Tasks,
    /// By what their scope prints as.
    informers: Mutex<BTreeMap<String, Shared>>,
}

struct Shared {
    scope: Scope,
    informer: SharedInformer,
}

/// These informers will never have their first list: they were stopped.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the first list: {}", .0.join(", "))]
pub struct NeverSynced(pub Vec<String>);

impl InformerFactory {
    /// Makes informers with `defaults`, whose selection is replaced by that of the scope.
    pub fn new(
        make_source: impl Fn(&Scope) -> Arc<dyn ListWatch> + Send + Sync + 'static,
        defaults: InformerOptions,
        clock: &Clock,
        entropy: &Entropy,
        tasks: &Tasks,
    ) -> Self {
        Self {
            make_source: Box::new(make_source),
            defaults,
            clock: clock.clone(),
            entropy: entropy.clone(),
            tasks: tasks.child("informers"),
            informers: Mutex::default(),
        }
    }

    /// The informer for this scope, made when it is first asked for.
    pub fn informer(&self, scope: &Scope) -> SharedInformer {
        self.informer_with(scope, self.defaults.clone())
    }

    /// The same with options of its own, which count only if nobody has asked for it before.
    pub fn informer_with(&self, scope: &Scope, options: InformerOptions) -> SharedInformer {
        let mut informers = self.lock();
        let shared = informers.entry(scope.to_string()).or_insert_with(|| {
            let options = InformerOptions { selection: scope.selection.clone(), ..options };
            let source = (self.make_source)(scope);
            let informer =
                SharedInformer::new(source, options, &self.clock, &self.entropy, &self.tasks);
            Shared { scope: scope.clone(), informer }
        });
        shared.informer.clone()
    }

    /// Starts all informers that were asked for and do not run yet.
    pub fn start(&self) {
        for shared in self.lock().values() {
            shared.informer.start();
        }
    }

    /// Waits until every informer that was asked for so far has its first list in the cache.
    pub async fn wait_for_sync(&self) -> Result<(), NeverSynced> {
        let waits =
            |(scope, shared): (&String, &Shared)| (scope.clone(), shared.informer.has_synced());
        let waiting: Vec<_> = self.lock().iter().map(waits).collect();
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

    /// The informers of a resource, in whichever version and form, and whichever of its objects they
    /// are about.
    pub fn of_resource(&self, group: &str, resource: &str) -> Vec<(Scope, SharedInformer)> {
        let informers = self.lock();
        let is_meant = |shared: &&Shared| {
            shared.scope.group_version.group == group && shared.scope.resource == resource
        };
        let found = informers.values().filter(is_meant);
        found.map(|shared| (shared.scope.clone(), shared.informer.clone())).collect()
    }

    /// Stops all informers.
    pub async fn shutdown(&self, patience: Duration) -> Result<(), Unclean> {
        self.tasks.stop(patience).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Shared>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
