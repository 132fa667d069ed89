//! [`InformerFactory`]: one informer per resource, scope and form, shared by all who ask for it.

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
    informers: Mutex<BTreeMap<String, SharedInformer>>,
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
        let informer = informers.entry(scope.to_string()).or_insert_with(|| {
            let options = InformerOptions { selection: scope.selection.clone(), ..options };
            let source = (self.make_source)(scope);
            SharedInformer::new(source, options, &self.clock, &self.entropy, &self.tasks)
        });
        informer.clone()
    }

    /// Starts all informers that were asked for and do not run yet.
    pub fn start(&self) {
        for informer in self.lock().values() {
            informer.start();
        }
    }

    /// Waits until every informer that was asked for so far has its first list in the cache.
    pub async fn wait_for_sync(&self) -> Result<(), NeverSynced> {
        let informers = self.lock().clone();
        let mut never = Vec::new();
        for (scope, informer) in informers {
            let mut synced = informer.has_synced();
            let synced = tokio::select! {
                biased;
                synced = synced.wait() => synced,
                () = self.tasks.shutdown() => false,
            };
            if !synced {
                never.push(scope);
            }
        }
        if never.is_empty() { Ok(()) } else { Err(NeverSynced(never)) }
    }

    /// The scopes of all informers, as text.
    pub fn scopes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Stops all informers.
    pub async fn shutdown(&self, patience: Duration) -> Result<(), Unclean> {
        self.tasks.stop(patience).await
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SharedInformer>> {
        self.informers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
