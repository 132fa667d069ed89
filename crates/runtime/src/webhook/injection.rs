//! [`Injector`]: keeps the authorities of a webhook server in the configuration that names it.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::StreamExt;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use keel::{Backoff, Clock, Entropy};
use kube_client::{
    Api, Client,
    api::{ListParams, PostParams, WatchParams},
};
use kube_core::{ApiResource, DynamicObject, WatchEvent};
use serde_json::Value;
use tokio::sync::watch;

/// A watch ends after this long, and is begun again.
const WATCH_SECONDS: u32 = 290;

/// Where authorities are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// All webhooks of a `MutatingWebhookConfiguration`, by its name.
    Mutating(String),
    /// All webhooks of a `ValidatingWebhookConfiguration`, by its name.
    Validating(String),
    /// The conversion of a `CustomResourceDefinition`, by its name.
    Conversion(String),
}

impl Target {
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

    /// Puts the bundle everywhere; whether that changed anything.
    fn put(&self, object: &mut Value, bundle: &str) -> bool {
        let mut changed = false;
        let mut put = |client_config: Option<&mut Value>| {
            if let Some(Value::Object(config)) = client_config
                && config.get("caBundle").and_then(Value::as_str) != Some(bundle)
            {
                config.insert("caBundle".to_owned(), bundle.into());
                changed = true;
            }
        };
        match self {
            Self::Mutating(_) | Self::Validating(_) => {
                let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
                for webhook in webhooks.into_iter().flatten() {
                    put(webhook.get_mut("clientConfig"));
                }
            }
            Self::Conversion(_) => put(object.pointer_mut("/spec/conversion/webhook/clientConfig")),
        }
        changed
    }
}

/// See the [module documentation](self).
pub(super) struct Injector {
    api: Api<DynamicObject>,
    target: Target,
    clock: Clock,
    entropy: Entropy,
}

impl Injector {
    pub(super) fn new(client: &Client, target: Target, clock: &Clock, entropy: &Entropy) -> Self {
        let api = Api::all_with(client.clone(), &target.resource());
        Self { api, target, clock: clock.clone(), entropy: entropy.clone() }
    }

    /// Injects, waits until the bundle or the configuration changes, and injects again.
    pub(super) async fn run(
        self,
        mut bundle: watch::Receiver<String>,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        let pauses = (Duration::from_millis(200), Duration::from_secs(30));
        let mut backoff = Backoff::new(pauses.0, pauses.1, self.entropy.clone());
        loop {
            let encoded = STANDARD.encode(bundle.borrow_and_update().as_str());
            let turn = async {
                let version = self.inject(&encoded).await?;
                self.until_changed(&version).await
            };
            let ended = tokio::select! {
                ended = turn => ended,
                changed = bundle.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = &mut stop => return,
            };
            match ended {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    tracing::warn!(target = self.target.name(), %error, "cannot inject");
                    tokio::select! {
                        () = self.clock.sleep(backoff.next_delay()) => {}
                        () = &mut stop => return,
                    }
                }
            }
        }
    }

    /// Writes the bundle where it is not; from which version on to watch for changes.
    async fn inject(&self, bundle: &str) -> kube_client::Result<String> {
        let list = ListParams::default().fields(&self.selector());
        let found = self.api.list(&list).await?;
        let listed = found.metadata.resource_version.unwrap_or_default();
        for mut object in found.items {
            if !self.target.put(&mut object.data, bundle) {
                continue;
            }
            let name = self.target.name();
            let written = self.api.replace(name, &PostParams::default(), &object).await;
            match written {
                // From its own version on: our own write is no news.
                Ok(written) => return Ok(written.metadata.resource_version.unwrap_or(listed)),
                // Somebody was faster; the watch shows it at once.
                Err(kube_client::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    async fn until_changed(&self, version: &str) -> kube_client::Result<()> {
        let watch = WatchParams::default().fields(&self.selector()).timeout(WATCH_SECONDS);
        let mut events = self.api.watch(&watch, version).await?.boxed();
        loop {
            match events.next().await {
                Some(Ok(WatchEvent::Bookmark(_))) => {}
                // An expired version ends here as well: the next turn lists.
                Some(Ok(_)) | None => return Ok(()),
                Some(Err(error)) => return Err(error),
            }
        }
    }

    fn selector(&self) -> String {
        format!("metadata.name={}", self.target.name())
    }
}
