//! [`Injector`]: writes the CA certificates of a webhook server into a webhook configuration.
//!
//! Every replica does this, and replicas may know different CA certificates for some time. So that
//! they do not overwrite each other, a replica that finds another CA reads the Secret before it
//! writes, keeps a CA that it does not know for as long as a replica may take to read the Secret,
//! and waits longer each time its write is changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::Api;
use kube_client::api::{ListParams, PostParams, WatchParams};
use kube_core::{ApiResource, DynamicObject, WatchEvent};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::authority;
use super::authority::CertificateInfo;
use super::certificates::{CertificateManager, MAX_REFRESH_INTERVAL};
use keel::{Backoff, ClockInstant};

/// The timeout of a watch in seconds.
const WATCH_SECONDS: u32 = 290;

/// The time for which an unknown CA is kept; by then every replica has read the Secret.
const UNKNOWN_CA_GRACE: Duration = Duration::from_secs(2 * MAX_REFRESH_INTERVAL.as_secs());

/// The delay between two writes grows from this to [`MAX_DELAY`] if others change the configuration.
const BASE_DELAY: Duration = Duration::from_millis(200);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// A webhook configuration into which CA certificates are injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InjectionTarget {
    /// All webhooks of a `MutatingWebhookConfiguration`, by its name.
    Mutating(String),
    /// All webhooks of a `ValidatingWebhookConfiguration`, by its name.
    Validating(String),
    /// The conversion of a `CustomResourceDefinition`, by its name.
    Conversion(String),
}

impl InjectionTarget {
    fn name(&self) -> &str {
        match self {
            Self::Mutating(name) | Self::Validating(name) | Self::Conversion(name) => name,
        }
    }

    fn resource(&self) -> ApiResource {
        match self {
            Self::Mutating(_) => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
            Self::Validating(_) => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
            Self::Conversion(_) => ApiResource::erase::<CustomResourceDefinition>(&()),
        }
    }

    /// The client configurations of the webhooks.
    fn client_configs<'a>(&self, object: &'a mut Value) -> Vec<&'a mut Map<String, Value>> {
        let configs = match self {
            Self::Mutating(_) | Self::Validating(_) => {
                let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
                let webhooks = webhooks.into_iter().flatten();
                webhooks.filter_map(|it| it.get_mut("clientConfig")).collect()
            }
            Self::Conversion(_) => {
                let config = object.pointer_mut("/spec/conversion/webhook/clientConfig");
                Vec::from_iter(config)
            }
        };
        configs.into_iter().filter_map(Value::as_object_mut).collect()
    }
}

/// See the [module documentation](self).
pub(super) struct Injector {
    manager: Arc<CertificateManager>,
    api: Api<DynamicObject>,
    target: InjectionTarget,
    /// Unknown CA certificates in the configuration, and the time since which they are known.
    other_authorities: BTreeMap<String, ClockInstant>,
}

/// The result of an injection.
struct Injected {
    is_written: bool,
    /// The version from which to watch.
    version: String,
}

impl Injector {
    pub(super) fn new(manager: &Arc<CertificateManager>, target: InjectionTarget) -> Self {
        let api = Api::all_with(manager.client.clone(), &target.resource());
        Self { manager: Arc::clone(manager), api, target, other_authorities: BTreeMap::new() }
    }

    /// Injects, waits until the bundle or the configuration changes, and injects again.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut bundle = self.manager.bundle.subscribe();
        let mut backoff = Backoff::new(BASE_DELAY, MAX_DELAY, self.manager.entropy.clone());
        loop {
            let was_written = tokio::select! {
                was_written = self.inject_and_wait(&mut bundle) => was_written,
                () = &mut stop => return,
            };
            match was_written {
                Ok(false) => {
                    backoff.reset();
                    continue;
                }
                Ok(true) => {}
                Err(error) => {
                    tracing::warn!(target = self.target.name(), %error, "cannot inject the CA certificates");
                }
            }
            tokio::select! {
                () = self.manager.clock.sleep(backoff.next_delay()) => {}
                () = &mut stop => return,
            }
        }
    }

    /// Injects, and waits for the next change; returns whether the configuration was written.
    async fn inject_and_wait(
        &mut self,
        bundle: &mut watch::Receiver<String>,
    ) -> kube_client::Result<bool> {
        let injected = self.inject(bundle).await?;
        tokio::select! {
            changed = self.until_changed(&injected.version) => changed?,
            // The sender belongs to the manager, which this injector holds.
            _ = bundle.changed() => {}
            () = self.until_other_expires() => {}
        }
        Ok(injected.is_written)
    }

    /// Writes the bundle, unless it is in the configuration.
    async fn inject(
        &mut self,
        bundle: &mut watch::Receiver<String>,
    ) -> kube_client::Result<Injected> {
        let list = ListParams::default().fields(&self.selector());
        let found = self.api.list(&list).await?;
        let listed = found.metadata.resource_version.unwrap_or_default();
        for mut object in found.items {
            let ours = authority::certificates(&bundle.borrow_and_update());
            if !self.set_bundle(&mut object.data.clone(), &ours)
                && self.other_authorities.is_empty()
            {
                continue;
            }
            // Another replica may have written the configuration after the Secret has changed.
            if let Err(error) = self.manager.refresh().await {
                tracing::warn!(%error, "cannot refresh the webhook certificates");
            }
            let ours = authority::certificates(&bundle.borrow_and_update());
            if !self.set_bundle(&mut object.data, &ours) {
                continue;
            }
            let name = self.target.name();
            match self.api.replace(name, &PostParams::default(), &object).await {
                // The watch begins after the own write.
                Ok(written) => {
                    let version = written.metadata.resource_version.unwrap_or(listed);
                    return Ok(Injected { is_written: true, version });
                }
                // The watch shows the concurrent change at once.
                Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Injected { is_written: false, version: listed })
    }

    /// Sets the CA certificates of this replica and the unknown ones that are kept; returns whether the
    /// configuration was changed.
    fn set_bundle(&mut self, object: &mut Value, ours: &[String]) -> bool {
        let (mut is_changed, mut other_authorities) = (false, BTreeMap::new());
        for config in self.target.client_configs(object) {
            let present = config.get("caBundle").and_then(Value::as_str).unwrap_or_default();
            let present = STANDARD.decode(present).unwrap_or_default();
            let mut present = authority::certificates(&String::from_utf8_lossy(&present));
            let mut wanted = ours.to_vec();
            for other in &present {
                if wanted.contains(other) {
                    continue;
                }
                let known = other_authorities
                    .get(other)
                    .or_else(|| self.other_authorities.get(other))
                    .cloned();
                let since = known.unwrap_or_else(|| self.manager.clock.instant());
                if self.is_kept_for_others(other, &since) {
                    wanted.push(other.clone());
                }
                other_authorities.insert(other.clone(), since);
            }
            let bundle = STANDARD.encode(wanted.concat());
            present.sort_unstable();
            wanted.sort_unstable();
            if present != wanted {
                config.insert("caBundle".to_owned(), bundle.into());
                is_changed = true;
            }
        }
        self.other_authorities = other_authorities;
        is_changed
    }

    fn is_kept_for_others(&self, authority: &str, since: &ClockInstant) -> bool {
        let now = self.manager.clock.now();
        self.manager.clock.elapsed_since(since) < UNKNOWN_CA_GRACE
            && CertificateInfo::read(authority).is_some_and(|it| now < it.not_after)
    }

    /// Waits until an unknown CA has to be removed.
    async fn until_other_expires(&self) {
        let clock = &self.manager.clock;
        let kept =
            self.other_authorities.iter().filter(|(it, since)| self.is_kept_for_others(it, since));
        let left =
            kept.map(|(_, since)| UNKNOWN_CA_GRACE.saturating_sub(clock.elapsed_since(since)));
        match left.min() {
            Some(left) => clock.sleep(left).await,
            None => std::future::pending().await,
        }
    }

    async fn until_changed(&self, version: &str) -> kube_client::Result<()> {
        let watch = WatchParams::default().fields(&self.selector()).timeout(WATCH_SECONDS);
        let mut events = self.api.watch(&watch, version).await?.boxed();
        loop {
            match events.next().await {
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                // An expired version also ends the watch; the next injection lists.
                Some(Ok(_)) | None => return Ok(()),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    fn selector(&self) -> String {
        format!("metadata.name={}", self.target.name())
    }
}
