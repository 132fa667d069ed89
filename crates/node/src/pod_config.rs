//! [`PodConfig`]: whether the `ConfigMap`s and Secrets exist that a pod needs to start.
//!
//! They are read when a pod with such references has not started, by one GET for each object, and again
//! after a growing delay while something is missing. Pods without references cost nothing. Of projected
//! volumes, `kube-root-ca.crt` is not checked, since nearly all pods have it.
//!
//! Upstream: `pkg/kubelet/kubelet_pods.go`, `makeEnvironmentVariables`, and `pkg/volume`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::pod_view::{Container, EnvVar, KeyRef, ObjectRef, PodView, Volume};
use keel::{Clock, Timestamp};
use runtime::client::json_requests;
use runtime::{Client, Failure, ObjectKey};

/// The time between the first two checks, which doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// The largest time between two checks.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The `ConfigMap` that the server adds to pods.
const ROOT_CA: &str = "kube-root-ca.crt";

/// See the [module documentation](self).
pub(crate) struct PodConfig {
    client: Client,
    clock: Clock,
    /// The pods that wait. Not locked while a request is sent.
    waiting: Mutex<HashMap<ObjectKey, Check>>,
}

/// What a pod cannot start without, in the words of the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Missing {
    /// The name of a volume that cannot be mounted, and why.
    pub volume: Option<(String, String)>,
    /// The containers that cannot be created, and why.
    pub containers: BTreeMap<String, String>,
}

/// The last check of a pod.
#[derive(Debug, Clone)]
struct Check {
    uid: String,
    missing: Missing,
    delay: Duration,
    next: Timestamp,
}

/// The result of [`PodConfig::check`].
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// What is missing.
    pub missing: Missing,
    /// Whether it was looked for by this call.
    pub is_new: bool,
    /// The time until the next check.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
}

/// The names of the entries of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::zero_sized_map_values, reason = "a set cannot be decoded from an object")]
struct Keys {
    data: BTreeMap<String, IgnoredAny>,
    binary_data: BTreeMap<String, IgnoredAny>,
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.volume.is_none() && self.containers.is_empty()
    }
}

impl PodConfig {
    /// Reads with this client.
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, waiting: Mutex::default() }
    }

    /// Looks for what a pod needs that has not started.
    pub(crate) async fn check(&self, key: &ObjectKey, pod: &PodView) -> Result<Checked, Failure> {
        if !matches!(pod.status.phase.as_str(), "" | "Pending") || !has_references(pod) {
            return Ok(Checked::default());
        }
        let last = self.lock().get(key).filter(|it| it.uid == pod.metadata.uid).cloned();
        let now = self.clock.now();
        if let Some(Check { missing, next, .. }) = &last
            && !next.since(now).is_zero()
        {
            let (missing, retry_after) = (missing.clone(), Some(next.since(now)));
            return Ok(Checked { missing, is_new: false, retry_after });
        }
        let reader = Reader { client: &self.client, pod, read: BTreeMap::new() };
        let missing = reader.missing().await?;
        if missing.is_empty() {
            self.forget(key);
            return Ok(Checked::default());
        }
        let delay = last.map_or(FIRST_DELAY, |it| (it.delay * 2).min(MAX_DELAY));
        let uid = pod.metadata.uid.clone();
        let check = Check { uid, missing: missing.clone(), delay, next: now + delay };
        self.lock().insert(key.clone(), check);
        Ok(Checked { missing, is_new: true, retry_after: Some(delay) })
    }

    /// Forgets a pod that was deleted.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Check>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the objects of one pod, each once.
struct Reader<'a> {
    client: &'a Client,
    pod: &'a PodView,
    read: BTreeMap<(Kind, &'a str), Option<Keys>>,
}

impl<'a> Reader<'a> {
    async fn missing(mut self) -> Result<Missing, Failure> {
        let spec = &self.pod.spec;
        for volume in &spec.volumes {
            for (kind, object) in objects_of(volume) {
                if let Some(why) = self.missing_in_volume(kind, object).await? {
                    let volume = Some((volume.name.clone(), why));
                    return Ok(Missing { volume, ..Missing::default() });
                }
            }
        }
        let mut containers = BTreeMap::new();
        for container in spec.init_containers.iter().chain(&spec.containers) {
            if let Some(why) = self.missing_for_container(container).await? {
                containers.insert(container.name.clone(), why);
            }
        }
        Ok(Missing { volume: None, containers })
    }

    async fn missing_in_volume(
        &mut self,
        kind: Kind,
        object: &'a ObjectRef,
    ) -> Result<Option<String>, Failure> {
        let Some(keys) = self.keys(kind, object.name()).await? else {
            return Ok(Some(kind.not_found(object.name())));
        };
        let has = |key: &str| keys.data.contains_key(key) || keys.binary_data.contains_key(key);
        let absent = object.items.iter().find(|item| !has(&item.key));
        Ok(absent.map(|item| match kind {
            Kind::ConfigMap => {
                format!("configmap references non-existent config key: {}", item.key)
            }
            Kind::Secret => format!("references non-existent secret key: {}", item.key),
        }))
    }

    async fn missing_for_container(
        &mut self,
        container: &'a Container,
    ) -> Result<Option<String>, Failure> {
        for source in &container.env_from {
            for (kind, object) in
                [(Kind::ConfigMap, &source.config_map_ref), (Kind::Secret, &source.secret_ref)]
            {
                let Some(object) = object.as_ref().filter(|it| !it.optional) else { continue };
                if self.keys(kind, object.name()).await?.is_none() {
                    return Ok(Some(kind.not_found(object.name())));
                }
            }
        }
        for (kind, KeyRef { name, key, .. }) in container.env.iter().filter_map(key_of) {
            let why = match self.keys(kind, name).await? {
                None => kind.not_found(name),
                Some(keys) if keys.data.contains_key(key) => continue,
                Some(_) => {
                    let namespace = &self.pod.metadata.namespace;
                    let kind = if kind == Kind::Secret { "Secret" } else { "ConfigMap" };
                    format!("couldn't find key {key} in {kind} {namespace}/{name}")
                }
            };
            return Ok(Some(why));
        }
        Ok(None)
    }

    /// The keys of an object; `None` if it does not exist.
    async fn keys(&mut self, kind: Kind, name: &'a str) -> Result<Option<&Keys>, Failure> {
        if !self.read.contains_key(&(kind, name)) {
            let resource = if kind == Kind::Secret { "secrets" } else { "configmaps" };
            let namespace = &self.pod.metadata.namespace;
            let path = format!("/api/v1/namespaces/{namespace}/{resource}/{name}");
            let keys: Option<Keys> = json_requests::get(self.client, &path).await?;
            self.read.insert((kind, name), keys);
        }
        Ok(self.read.get(&(kind, name)).and_then(Option::as_ref))
    }
}

impl Kind {
    fn not_found(self, name: &str) -> String {
        let resource = if self == Self::Secret { "secret" } else { "configmap" };
        format!("{resource} {name:?} not found")
    }
}

/// Whether a pod needs an object to start.
fn has_references(pod: &PodView) -> bool {
    let needs = |it: &Option<ObjectRef>| it.as_ref().is_some_and(|it| !it.optional);
    let spec = &pod.spec;
    spec.volumes.iter().any(|volume| objects_of(volume).next().is_some())
        || spec.init_containers.iter().chain(&spec.containers).any(|container| {
            container.env.iter().any(|variable| key_of(variable).is_some())
                || container
                    .env_from
                    .iter()
                    .any(|it| needs(&it.config_map_ref) || needs(&it.secret_ref))
        })
}

/// The objects that must exist for a volume.
fn objects_of(volume: &Volume) -> impl Iterator<Item = (Kind, &ObjectRef)> {
    let direct = [(Kind::ConfigMap, &volume.config_map), (Kind::Secret, &volume.secret)];
    let sources = volume.projected.iter().flat_map(|it| &it.sources);
    let projected = sources.flat_map(|source| {
        let config_map = source.config_map.as_ref().filter(|it| it.name() != ROOT_CA);
        [(Kind::ConfigMap, config_map), (Kind::Secret, source.secret.as_ref())]
    });
    let all = direct.into_iter().map(|(kind, object)| (kind, object.as_ref())).chain(projected);
    all.filter_map(|(kind, object)| Some((kind, object.filter(|it| !it.optional)?)))
}

/// The entry of an object from which a variable must have its value.
fn key_of(variable: &EnvVar) -> Option<(Kind, &KeyRef)> {
    let source = variable.value_from.as_ref()?;
    let config_map = source.config_map_key.as_ref().map(|it| (Kind::ConfigMap, it));
    let secret = || source.secret_key.as_ref().map(|it| (Kind::Secret, it));
    config_map.or_else(secret).filter(|(_, it)| !it.optional)
}
